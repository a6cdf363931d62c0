"""Evaluate the shipped alert rules and dashboard with promtool, on scrapes of /metrics.

`promtool` comes with Prometheus (Debian's package `prometheus`). Tests that need it are skipped without it.
"""

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

RULES = Path(__file__).parents[1] / "docker" / "alerts.yaml"
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed: install Debian's package prometheus"
)
INTERVAL = 60  # seconds between two scrapes, and between two evaluations of the rules

Series = dict[str, list[float | None]]  # values by name and labels, one per scrape; None: absent
Alert = tuple[dict[str, str], str]  # labels beside the severity, and the value as the description shows it


def series_of(scrapes: Mapping[str, Sequence[str]]) -> Series:
    """Turn the scraped texts of each target into series, with the labels that Prometheus adds."""
    series: Series = {}
    for instance, texts in scrapes.items():
        for number, text in enumerate(texts):
            for name, value in _samples(text, instance):
                series.setdefault(name, [None] * len(texts))[number] = value
    return series


def _samples(text: str, instance: str) -> Iterable[tuple[str, float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            # As with `honor_labels`: a label `job` of the metric stays.
            labels = {"job": "punctual", "instance": instance} | sample.labels
            pairs = ",".join(f"{key}={_quoted(value)}" for key, value in sorted(labels.items()))
            yield f"{sample.name}{{{pairs}}}", sample.value


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def run_rules(series: Series, folder: Path, expected: Mapping[int, Mapping[str, Sequence[Alert]]]) -> str:
    """Compare the alerts of some scrapes, by number and name of the rule, with `expected`.

    Return promtool's complaints: nothing if all agree. A rule that is not named must not fire.
    """
    rules = {rule["alert"]: rule for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]}
    assert {name for alerts in expected.values() for name in alerts} <= set(rules), "no such rule"
    tests = [
        {
            "eval_time": f"{number * INTERVAL}s",
            "alertname": name,
            "exp_alerts": [_alert(rule, *alert) for alert in alerts.get(name, ())],
        }
        for number, alerts in expected.items()
        for name, rule in rules.items()
    ]
    output = _run(series, folder, {"alert_rule_test": tests})
    return "" if "SUCCESS" in output and "FAILED" not in output else output


def _alert(rule: Mapping[str, Any], labels: Mapping[str, str], value: str) -> dict[str, Any]:
    def filled(text: str) -> str:
        text = re.sub(r"{{ \$labels\.(\w+) }}", lambda match: labels[match[1]], text)
        return re.sub(r"{{ \$value.*?}}", value, text)

    annotations = {name: filled(text) for name, text in rule["annotations"].items()}
    return {"exp_labels": {**rule["labels"], **labels}, "exp_annotations": annotations}


def evaluate(expressions: Sequence[str], series: Series, folder: Path, *, at: int) -> list[set[str]]:
    """Return the samples of each expression at the scrape number `at`, as promtool prints them."""
    tests = [{"expr": text, "eval_time": f"{at * INTERVAL}s", "exp_samples": [{"labels": "none", "value": 0}]}
             for text in expressions]  # fmt: skip
    output = _run(series, folder, {"promql_expr_test": tests})
    got = re.findall(r"\n\s+got:(.*)", output)
    assert len(got) == len(expressions), output
    return [set(re.findall(r"(?:\{.*?\} )?\S+E[+-]\d+", line)) for line in got]


def _run(series: Series, folder: Path, test: Mapping[str, Any]) -> str:
    document = {
        "rule_files": [str(RULES)],
        "evaluation_interval": f"{INTERVAL}s",
        "tests": [
            {
                "interval": f"{INTERVAL}s",
                "input_series": [
                    {"series": name, "values": " ".join("_" if one is None else repr(one) for one in values)}
                    for name, values in series.items()
                ],
                **test,
            }
        ],
    }
    path = folder / "rules_test.yaml"
    path.write_text(yaml.safe_dump(document, width=10_000))
    return _promtool("test", "rules", str(path))


def _promtool(*arguments: str) -> str:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False, timeout=60)
    return done.stdout + done.stderr


def check(*arguments: str) -> str:
    return _promtool("check", *arguments)

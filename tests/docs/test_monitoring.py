"""The dashboard and the alert rules query metrics and labels that exist."""

import json
import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from punctual.console.status.metrics import render_metrics
from punctual.execution.models import Process
from punctual.occurrences.models import Cause
from tests.console.ledger_rows import make_attempt, make_job, make_occurrence, make_run, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-4")]

DOCKER = Path(__file__).parents[2] / "docker"
METRIC = re.compile(r"\bscheduler_\w+")


@pytest.fixture
def exposed(now: datetime) -> dict[str, set[str]]:
    """Return the labels of every sample by its name."""
    job = make_job("etl", now)
    one = make_occurrence(job, now, cause=Cause.RECOVERY, config={"recovery": "execute_last"})
    make_attempt(make_run(one, make_task(job)))
    Process.objects.create(kind="beat", name="b", started_at=now, seen_at=now, tick_duration=timedelta())
    families = text_string_to_metric_families(render_metrics(now + timedelta(minutes=1)).decode())
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


def expressions() -> list[str]:
    board = json.loads((DOCKER / "grafana-dashboard.json").read_text())
    rules = yaml.safe_load((DOCKER / "alerts.yaml").read_text())["groups"][0]["rules"]
    targets = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return [*targets, *(rule["expr"] for rule in rules)]


def test_every_metric_asked_for_is_exposed(exposed: dict[str, set[str]]) -> None:
    asked = {name for text in expressions() for name in METRIC.findall(text)}
    assert len(asked) >= 10
    assert asked <= set(exposed)


def test_every_label_asked_for_is_one_of_its_metric(exposed: dict[str, set[str]]) -> None:
    for text in expressions():
        labels = {label for name in METRIC.findall(text) for label in exposed[name]}
        grouped = {one.strip() for listed in re.findall(r"by \(([^)]*)\)", text) for one in listed.split(",")}
        matched = set(re.findall(r"[{,]\s*(\w+)\s*=", text))
        assert grouped | matched <= labels, text


def test_every_alert_says_what_is_wrong_and_how_bad() -> None:
    rules = yaml.safe_load((DOCKER / "alerts.yaml").read_text())["groups"][0]["rules"]
    for rule in rules:
        assert {"summary", "description"} <= set(rule["annotations"]), rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning")

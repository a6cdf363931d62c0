"""The compose file, the image and the health check match the project. No container engine is needed."""

import importlib.util
import re
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from celery.bin.celery import celery
from django.core.management import get_commands

from punctual.execution.models import Process
from punctual.execution.supervision import presence
from punctual.jobs.clock import database_now
from tests.architecture.source import FLOW
from tests.docs.markdown import ROOT, page
from tests.docs.test_claims import environment_variables

DOCKER = ROOT / "docker"
VARIABLE = re.compile(r"\$\{([A-Z_]+)(:[-?])?")
OURS = ("migrate", "web", "beat", "worker", "flower")
# Debug mode is not for containers; the folder is of the embedded default; the image has one settings module.
NOT_PASSED = {"DEBUG", "PUNCTUAL_VAR", "DJANGO_SETTINGS_MODULE"}
ONLY_COMPOSE = {"POSTGRES_PASSWORD", "BROKER_PASSWORD", "FLOWER_BASIC_AUTH", "WEB_PORT", "FLOWER_PORT"}


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    return loaded


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compose()["services"]
    return found


def dockerfile(instruction: str) -> list[str]:
    text = (DOCKER / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.split(" ", 1)[1] for line in text.splitlines() if line.startswith(f"{instruction} ")]


def test_it_has_everything_a_deployment_needs() -> None:
    assert set(services()) == {"postgres", "broker", *OURS}
    assert services()["beat"]["deploy"]["replicas"] == 2


@pytest.mark.parametrize("name", OURS)
def test_a_service_is_given_only_variables_that_are_read(name: str) -> None:
    given = set(services()[name]["environment"])
    assert given - {"FLOWER_BASIC_AUTH"} <= environment_variables()
    assert {"DATABASE_URL", "BROKER_URL", "SECRET_KEY", "ALLOWED_HOSTS"} <= given


@pytest.mark.parametrize("name", OURS)
def test_a_service_is_given_every_documented_variable(name: str) -> None:
    documented = {row[0] for row in page("docs/operations.md").table("Environment variables")}
    assert documented - set(services()[name]["environment"]) == NOT_PASSED


def test_a_variable_without_a_value_is_optional_and_shown_in_the_example() -> None:
    optional = {name for name, value in compose()["x-app"]["environment"].items() if value is None}
    shown = re.findall(r"^# ([A-Z_]+)=", (DOCKER / ".env.example").read_text(), re.MULTILINE)
    assert optional <= set(shown)


@pytest.mark.parametrize("name", [name for name in OURS if name != "web"])
def test_a_command_calls_a_program_of_the_project(name: str) -> None:
    program, *words = services()[name]["command"]
    if program == "python":
        assert words[0] == "manage.py"
        assert words[1] in get_commands()
    else:
        assert (program, words[:2]) == ("celery", ["-A", "scheduler_project"])
        assert words[2] in {*celery.commands, "flower"}


@pytest.mark.parametrize("name", ["web", "beat", "worker", "flower"])
def test_a_service_waits_for_the_migration_and_comes_back(name: str) -> None:
    service = services()[name]
    assert service["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}
    assert service["restart"] == "unless-stopped"


def test_every_long_running_service_has_a_health_check() -> None:
    of_the_image = {"web"}
    assert {name for name, service in services().items() if "test" not in service.get("healthcheck", {})} == {
        "migrate",
        *of_the_image,
    }
    for name in ("beat", "worker"):
        assert services()[name]["healthcheck"]["test"][1:] == ["python", "docker/healthcheck.py", name]


def test_secrets_have_no_default_and_the_example_lists_every_variable() -> None:
    used = dict(VARIABLE.findall((DOCKER / "compose.yaml").read_text()))
    secrets = {"POSTGRES_PASSWORD", "BROKER_PASSWORD", "SECRET_KEY", "FLOWER_BASIC_AUTH"}
    assert {name for name, mode in used.items() if mode == ":?"} == secrets
    lines = (DOCKER / ".env.example").read_text().splitlines()
    example = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert example.keys() == used.keys()
    assert {example[name] for name in secrets} == {""}
    assert used.keys() <= environment_variables() | ONLY_COMPOSE


def test_only_this_machine_reaches_the_published_ports() -> None:
    published = [port for service in services().values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_the_image_holds_every_package_and_runs_without_root() -> None:
    copied = {line.split()[0].rstrip("/") for line in dockerfile("COPY")}
    assert {*FLOW, "punctual", "examples", "manage.py", "requirements/production.txt"} <= copied
    assert all((ROOT / name).exists() for name in copied if not name.startswith("--from"))
    assert dockerfile("USER") == ["punctual"]
    assert dockerfile("CMD")[0].startswith('["gunicorn", ')
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored[1] == "*"
    assert {line.lstrip("!").rstrip("/") for line in ignored if line.startswith("!")} == {
        name for name in copied if not name.startswith("--from")
    }


def test_the_build_s_throw_away_values_stay_in_their_line() -> None:
    kept = " ".join(dockerfile("ENV") + dockerfile("ARG"))
    assert "SECRET_KEY" not in kept
    assert any("SECRET_KEY=" in line and "collectstatic" in line for line in dockerfile("RUN"))


@pytest.fixture
def healthcheck() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("healthcheck", Path(DOCKER / "healthcheck.py"))
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.django_db
def test_a_beat_is_healthy_while_its_own_host_ticks(healthcheck: ModuleType) -> None:
    now = database_now()
    presence.sign_in("elsewhere:1", Process.Kind.BEAT, now=now)
    assert healthcheck.main("beat") == "no beat of this host has signed in"
    presence.sign_in(f"{socket.gethostname()}:7", Process.Kind.BEAT, now=now)
    assert healthcheck.main("beat") == 0
    presence.renew(f"{socket.gethostname()}:7", Process.Kind.BEAT, now=now - timedelta(seconds=45))
    assert healthcheck.main("beat") == "last tick 45 s ago"


def test_a_web_server_that_does_not_answer_is_unhealthy(healthcheck: ModuleType) -> None:
    with socket.socket() as taken:  # bound, not listening: refuses
        taken.bind(("127.0.0.1", 0))
        healthcheck.ROLES["web"] = lambda: healthcheck.web(f"http://127.0.0.1:{taken.getsockname()[1]}")
        assert healthcheck.main("web").startswith("web: URLError")


def test_the_hooks_call_tools_that_exist() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    makefile = (ROOT / "Makefile").read_text()
    for hook in hooks:
        tool = hook["entry"].split()[0].removeprefix(".venv/bin/")
        assert f"$(BIN)/{tool}" in makefile, hook["id"]

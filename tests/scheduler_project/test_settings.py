"""Settings in processes of their own, each with nothing but the variables a test gives it."""

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCTION = {
    "DATABASE_URL": "postgres://punctual@localhost/punctual",
    "BROKER_URL": "redis://localhost:6379/0",
    "ALLOWED_HOSTS": "punctual.example.org",
    "SECRET_KEY": secrets.token_urlsafe(64),
}
SHOW = """
import json, django.conf
settings = django.conf.settings
print(json.dumps({name: getattr(settings, name) for name in sorted(dir(settings))
                  if name.isupper()}, default=str))
"""


def run(*command: str, **env: str) -> subprocess.CompletedProcess[str]:
    bare = {"PATH": os.environ["PATH"], "DJANGO_SETTINGS_MODULE": "scheduler_project.settings"}
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=bare | env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def settings_with(**env: str) -> dict[str, Any]:
    done = run("-c", SHOW, **env)
    assert done.returncode == 0, done.stderr
    loaded: dict[str, Any] = json.loads(done.stdout)
    return loaded


@pytest.mark.req("OPS-7")
def test_production_passes_the_deployment_check() -> None:
    done = run("manage.py", "check", "--deploy", "--fail-level", "WARNING", **PRODUCTION)
    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout


@pytest.mark.req("OPS-7")
def test_production_is_https_only_and_not_in_debug_mode() -> None:
    settings = settings_with(**PRODUCTION)
    assert settings["DEBUG"] is False
    assert settings["SECURE_SSL_REDIRECT"] is True
    assert settings["SECURE_HSTS_SECONDS"] > 0
    assert settings["SESSION_COOKIE_SECURE"] is True
    assert settings["CSRF_COOKIE_SECURE"] is True
    assert settings["ALLOWED_HOSTS"] == ["punctual.example.org"]


@pytest.mark.req("OPS-7")
def test_only_json_crosses_the_broker() -> None:
    settings = settings_with(**PRODUCTION)
    assert settings["CELERY_ACCEPT_CONTENT"] == ["json"]
    assert settings["CELERY_TASK_SERIALIZER"] == "json"
    assert settings["CELERY_RESULT_SERIALIZER"] == "json"


@pytest.mark.req("OPS-7")
def test_proxy_headers_are_trusted_only_with_behind_proxy() -> None:
    assert settings_with(**PRODUCTION)["SECURE_PROXY_SSL_HEADER"] is None
    behind = settings_with(**PRODUCTION, BEHIND_PROXY="on")
    assert behind["SECURE_PROXY_SSL_HEADER"] == ["HTTP_X_FORWARDED_PROTO", "https"]


@pytest.mark.req("OPS-7")
@pytest.mark.parametrize("missing", ["SECRET_KEY"])
def test_production_does_not_start_without(missing: str) -> None:
    given = {name: value for name, value in PRODUCTION.items() if name != missing}
    done = run("manage.py", "check", **given)
    assert done.returncode != 0
    assert f"{missing} is not set" in done.stderr.splitlines()[-1]


@pytest.mark.req("OPS-1")
def test_the_embedded_default_needs_no_variable_but_its_folder(tmp_path: Path) -> None:
    settings = settings_with(PUNCTUAL_VAR=str(tmp_path))
    database = settings["DATABASES"]["default"]
    assert database["ENGINE"] == "django.db.backends.sqlite3"
    assert database["NAME"] == str(tmp_path / "punctual.sqlite3")
    assert settings["BROKER_URL"] == f"redis+socket://{tmp_path / 'broker.sock'}"
    assert settings["SECURE_SSL_REDIRECT"] is False
    assert settings["DEBUG"] is False
    assert settings["ALLOWED_HOSTS"] == ["localhost", "127.0.0.1", "[::1]"]


@pytest.mark.req("OPS-1")
def test_the_embedded_default_passes_the_checks(tmp_path: Path) -> None:
    done = run("manage.py", "check", PUNCTUAL_VAR=str(tmp_path))
    assert done.returncode == 0, done.stderr


def test_apps_of_the_users_are_installed() -> None:
    settings = settings_with(**PRODUCTION, PUNCTUAL_APPS="tests.cluster.app, examples.demo")
    assert settings["INSTALLED_APPS"][-2:] == ["tests.cluster.app", "examples.demo"]


@pytest.mark.req("OPS-7")
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("DEBUG", "maybe", "DEBUG='maybe': expected one of"),
        ("HTTPS", "perhaps", "HTTPS='perhaps': expected one of"),
        ("DATABASE_CONNECT_TIMEOUT", "many", "DATABASE_CONNECT_TIMEOUT='many': expected a whole number"),
        ("DATABASE_URL", "mysql://x/y", "DATABASE_URL: scheme 'mysql' is not one of"),
        ("DATABASE_URL", "postgres://u:secret[@h/x", "DATABASE_URL: not a URL that can be read"),
        ("DATABASE_URL", "postgres://u:secret@h:port/x", "DATABASE_URL: not a URL that can be read"),
        ("BROKER_URL", "http://x", "BROKER_URL: scheme 'http' is not one of"),
        ("LOG_LEVEL", "loud", "LOG_LEVEL='LOUD': expected one of DEBUG, INFO"),
        ("PUNCTUAL_APPS", "nope", "PUNCTUAL_APPS: no package named 'nope' can be imported"),
    ],
)
def test_a_bad_variable_ends_the_process_with_one_clear_line(name: str, value: str, message: str) -> None:
    done = run("manage.py", "check", **PRODUCTION | {name: value})
    assert done.returncode != 0
    assert message in done.stderr.splitlines()[-1]


@pytest.mark.req("OCC-7")
def test_rabbitmq_is_asked_to_confirm_each_message() -> None:
    settings = settings_with(**PRODUCTION | {"BROKER_URL": "amqp://user:secret@localhost//"})
    assert settings["CELERY_BROKER_TRANSPORT_OPTIONS"] == {"confirm_publish": True}

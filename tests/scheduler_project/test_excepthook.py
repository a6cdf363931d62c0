"""An uncaught error prints one line without secrets and exits with a non-zero code."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    return subprocess.run(
        [sys.executable, *command],
        env=kept | {"SECRET_KEY": "k" * 60} | env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


UNREACHABLE = "postgres://someone:hunter2@127.0.0.1:1/punctual"


@pytest.mark.req("OPS-7")
@pytest.mark.parametrize(
    "command",
    [
        ("manage.py", "migrate"),
        ("manage.py", "punctual", "jobs", "list"),
        ("-m", "celery", "-q", "-A", "scheduler_project", "beat"),
    ],
)
def test_an_unreachable_database_is_one_line_and_a_failure(command: tuple[str, ...]) -> None:
    done = run(*command, DATABASE_URL=UNREACHABLE, BROKER_URL="redis://127.0.0.1:1/0")
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if "error: " in line]
    assert len(lines) == 1, done.stderr
    assert "127.0.0.1" in lines[0]
    assert "Connection refused" in lines[0]
    assert "hunter2" not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_a_database_without_tables_names_the_remedy(tmp_path: Path) -> None:
    done = run("manage.py", "punctual", "jobs", "list", PUNCTUAL_VAR=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("error: the database is not migrated; run `manage.py migrate`")


@pytest.mark.req("JOB-2")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '@scheduled("61 * * * *")\ndef broken(ctx): ...',
            "error: broken: schedule='61 * * * *': E002 minute: value 61 out of range [0, 59]",
        ),
        (
            '@scheduled("* * * * *", overlap="maybe")\ndef broken(ctx): ...',
            "error: broken: overlap='maybe': expected one of skip, allow, queue, replace, queue_latest",
        ),
    ],
)
def test_a_wrong_declaration_stops_every_process_with_its_error(
    tmp_path: Path, line: str, message: str
) -> None:
    package = tmp_path / "badapp"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "jobs.py").write_text(f"from punctual import scheduled\n{line}\n")
    env = {"PUNCTUAL_APPS": "badapp", "PYTHONPATH": str(tmp_path), "PUNCTUAL_VAR": str(tmp_path / "var")}
    for command in (("manage.py", "migrate"), ("-m", "celery", "-A", "scheduler_project", "worker")):
        done = run(*command, **env)
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1] == message
    # Django's own checks may open the file before ours import the declarations: SQLite writes its header.
    with closing(sqlite3.connect(tmp_path / "var" / "punctual.sqlite3")) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [], "nothing was created"


def test_the_option_traceback_shows_the_traceback(tmp_path: Path) -> None:
    done = run("manage.py", "punctual", "--traceback", "jobs", "list", PUNCTUAL_VAR=str(tmp_path))
    assert done.returncode == 1
    assert "Traceback" in done.stderr


@pytest.mark.req("OPS-7")
@pytest.mark.parametrize("error", ["ValueError", "PunctualError"])
def test_an_uncaught_error_shows_no_secret(error: str, tmp_path: Path) -> None:
    code = f"""
from django.conf import settings
from punctual.jobs.errors import PunctualError
raise {error}(settings.SECRET_KEY, "redis://me:geheim@h/0", settings.BROKER_URL)
"""
    broker, key = "redis://:hunter2@127.0.0.1:1/0", "k" * 30 + "-secret-key-of-settings"
    done = run(
        "manage.py", "shell", "-c", code, BROKER_URL=broker, SECRET_KEY=key, PUNCTUAL_VAR=str(tmp_path)
    )
    assert done.returncode == 1
    assert "••••••••" in done.stderr
    assert not [word for word in (key, "geheim", "hunter2") if word in done.stderr]

"""Files and folders: one idea each, no buckets, no history left unwritten."""

import os
import subprocess
import sys

import pytest

from tests.architecture.source import FLOW, ROOT, Module, modules

BUCKETS = {"utils", "util", "common", "services", "helpers", "misc"}
LONGEST_MODULE = 400
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def test_nothing_is_a_bucket() -> None:
    parts = {path: set(path.removesuffix(".py").split("/")) for path in (m.path for m in modules())}
    assert [path for path, names in parts.items() if names & BUCKETS] == []


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.path)
def test_a_module_is_short_enough_to_hold_one_idea(module: Module) -> None:
    assert len(module.text.splitlines()) < LONGEST_MODULE


@pytest.mark.parametrize("package", FLOW)
def test_every_package_of_the_flow_exists(package: str) -> None:
    assert (ROOT / package / "__init__.py").is_file()


@pytest.mark.req("OPS-1")
def test_everything_can_be_imported_without_a_driver_for_postgresql() -> None:
    """The embedded installation has SQLite alone; the tests' own has both, and would not notice."""
    block = "import sys; sys.modules['psycopg'] = None; import django; django.setup(); "
    program = (
        block
        + "import punctual.beat.celery_scheduler, punctual.execution.worker.work; "
        + "import punctual.console.urls, scheduler_project.urls"
    )
    environment = {key: value for key, value in os.environ.items() if key != "DATABASE_URL"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment | {"DJANGO_SETTINGS_MODULE": "scheduler_project.settings"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_imports_point_left() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken" in done.stdout


def test_no_migration_is_pending() -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr

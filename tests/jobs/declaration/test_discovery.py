"""Which modules of installed apps are imported, and when."""

import subprocess
import sys

import pytest
from django.apps import AppConfig

from punctual.jobs.declaration.discovery import declaration_modules

pytestmark = pytest.mark.req("JOB-3")

LAZY = """
import sys
import django
django.setup()
from punctual.jobs.declaration.registry import registry
assert "examples.demo.jobs" not in sys.modules, "imported at start-up"
assert registry.jobs
assert "examples.demo.jobs" in sys.modules
"""


def test_jobs_and_tasks_of_an_app_are_modules_of_declarations() -> None:
    shop = AppConfig.create("tests.jobs.declaration.shop")
    assert list(declaration_modules([shop])) == [
        "tests.jobs.declaration.shop.jobs",
        "tests.jobs.declaration.shop.tasks",
    ]


@pytest.mark.parametrize("app", ["punctual", "punctual.console", "django.contrib.auth"])
def test_our_own_apps_and_apps_without_such_modules_have_none(app: str) -> None:
    assert list(declaration_modules([AppConfig.create(app)])) == []


def test_users_modules_are_imported_by_the_first_read_and_not_by_django_s_setup() -> None:
    environment = {"DJANGO_SETTINGS_MODULE": "scheduler_project.settings", "PUNCTUAL_APPS": "examples.demo"}
    subprocess.run([sys.executable, "-c", LAZY], env=environment, check=True, timeout=60)

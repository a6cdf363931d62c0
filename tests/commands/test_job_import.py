"""`manage.py punctual jobs import_beat`."""

import io
import json

import pytest
from django.core.management import call_command
from django_celery_beat.models import PeriodicTask, SolarSchedule

from punctual.jobs.clock import database_now
from punctual.jobs.models import Job, JobVersion
from tests.beat.periodic_tasks.factories import saved_periodic_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OCC-10")]


def run_import(*words: str) -> str:
    out = io.StringIO()
    call_command("punctual", "jobs", "import_beat", *words, stdout=out)
    return out.getvalue()


@pytest.mark.req("OPS-3")
def test_a_dry_run_reports_and_writes_nothing() -> None:
    saved_periodic_task("a")
    saved_periodic_task("b", solar=SolarSchedule(event="sunset", latitude=1, longitude=2))
    lines = run_import("--dry-run").splitlines()
    assert lines[0] == "imported  a  TZ=UTC 0 * * * *  switched off in django-celery-beat"
    assert lines[1].startswith("refused  b  solar='Sunset (1")
    assert lines[2] == "1 imported, 1 refused, 0 already imported (dry run: nothing was written)"
    assert not Job.objects.exists()
    assert PeriodicTask.objects.filter(enabled=True).count() == 2


@pytest.mark.req("OPS-3")
def test_the_command_imports_and_prints_text_or_json() -> None:
    saved_periodic_task("a")
    (row,) = json.loads(run_import("--json", "--author", "ann", "--keep-enabled"))
    assert row == {
        "name": "a",
        "fate": "imported",
        "reason": "",
        "schedule": "TZ=UTC 0 * * * *",
        "off": False,
    }
    assert JobVersion.objects.get().author == "ann"
    assert run_import() == (
        "already imported  a  TZ=UTC 0 * * * *  switched off in django-celery-beat\n"
        "0 imported, 0 refused, 1 already imported\n"
    )
    assert Job.objects.get().created_at <= database_now()

"""Two people confirm at one moment: the row's lock decides, and the loser is told."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection, transaction
from django.test import Client

from jobs.models import Job, JobVersion
from tests.console.pages import pages, root
from tests.jobs.filled import Editing
from tests.jobs.made import FUNCTIONS, edit_url, functions, saved
from tests.race.threads import PATIENCE, at_once, wait_until_blocked

__all__ = ["functions", "pages", "root"]  # fixtures
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.postgres,  # SQLite has one writer at a time
    pytest.mark.req("JOB-5"),
    pytest.mark.usefixtures("functions"),
]


def confirmed(editing: Editing) -> str:
    try:
        return editing.confirm()
    finally:
        connection.close()


def overtaken(holding: Event, release: Event) -> None:
    """Somebody else's change, not committed before `release`."""
    try:
        with transaction.atomic():
            saved(schedule="@hourly")
            holding.set()
            release.wait(PATIENCE)
    finally:
        connection.close()


def test_an_edit_overtaken_after_its_last_look_is_refused_under_the_lock(root: Client) -> None:
    job = saved()
    mine = Editing(root, edit_url(job))
    mine.look(config='{"mode": "parallel"}', reason="mine")
    holding, release = Event(), Event()
    with ThreadPoolExecutor(2) as pool:
        other = pool.submit(overtaken, holding, release)
        holding.wait(PATIENCE)
        told = pool.submit(confirmed, mine)
        wait_until_blocked()
        release.set()
        other.result(timeout=PATIENCE)
        assert "the job is at version 2 now" in told.result(timeout=PATIENCE)
        assert "what you confirm next applies to version 2" in mine.page
    assert (mine.fields["config"], mine.fields["reason"]) == ('{"mode": "parallel"}', "mine")
    job.refresh_from_db()
    assert (job.version, job.schedule, job.config) == (2, "@hourly", {})
    assert not LogEntry.objects.exists()


def test_of_several_who_confirm_at_once_exactly_one_wins(root: Client) -> None:
    job = saved()
    everybody = [Editing(root, edit_url(job)) for _ in range(3)]
    for number, editing in enumerate(everybody):
        editing.look(schedule=f"{number} 5 * * *", reason=f"number {number}")
    answers = at_once(*(editing.confirm for editing in everybody))
    assert sorted("the job is at version 2 now" in text for text in answers) == [False, True, True]
    assert JobVersion.objects.filter(job=job).count() == 2
    assert Job.objects.get().version == 2


def test_of_several_who_add_one_name_at_once_exactly_one_job_is_made_whole(root: Client) -> None:
    everybody = [Editing(root, "/admin/jobs/job/add/") for _ in range(3)]
    for number, editing in enumerate(everybody):
        task = {"tasks-0-name": f"step {number}", "tasks-0-function": FUNCTIONS[0]}
        editing.look(name="etl", schedule=f"{number} 5 * * *", reason="wanted", **task)
    answers = at_once(*(editing.confirm for editing in everybody))
    assert sorted("there is a job of this name already" in text for text in answers) == [False, True, True]
    job = Job.objects.get()
    assert list(job.tasks.values_list("name", flat=True)) == [f"step {job.schedule[0]}"]
    assert JobVersion.objects.get().after["schedule"] == job.schedule

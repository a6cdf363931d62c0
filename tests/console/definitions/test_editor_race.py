"""Concurrent confirmations: the row lock decides, and the loser sees the conflict."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection, transaction
from django.test import Client

from punctual.jobs.models import Job, JobVersion
from tests.console.definitions.editable_jobs import FUNCTIONS, edit_url, saved
from tests.console.definitions.form_driver import EditorSession
from tests.race.threads import TIMEOUT, at_once, wait_until_blocked

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.postgres,  # SQLite has one writer at a time
    pytest.mark.req("JOB-5"),
    pytest.mark.usefixtures("functions"),
]


def result_of(editing: EditorSession) -> str:
    try:
        return editing.confirm()
    finally:
        connection.close()


def store_concurrently(holding: Event, release: Event) -> None:
    """Store another operator's change, and commit it after `release`."""
    try:
        with transaction.atomic():
            saved(schedule="@hourly")
            holding.set()
            release.wait(TIMEOUT)
    finally:
        connection.close()


def test_an_edit_that_became_stale_after_its_check_is_refused_under_the_lock(root: Client) -> None:
    job = saved()
    mine = EditorSession(root, edit_url(job))
    mine.look(config='{"mode": "parallel"}', reason="mine")
    holding, release = Event(), Event()
    with ThreadPoolExecutor(2) as pool:
        other = pool.submit(store_concurrently, holding, release)
        holding.wait(TIMEOUT)
        answer = pool.submit(result_of, mine)
        wait_until_blocked()
        release.set()
        other.result(timeout=TIMEOUT)
        assert "the job is at version 2 now" in answer.result(timeout=TIMEOUT)
        assert "what you confirm next applies to version 2" in mine.page
    assert (mine.fields["config"], mine.fields["reason"]) == ('{"mode": "parallel"}', "mine")
    job.refresh_from_db()
    assert (job.version, job.schedule, job.config) == (2, "@hourly", {})
    assert not LogEntry.objects.exists()


def test_of_several_concurrent_confirmations_exactly_one_wins(root: Client) -> None:
    job = saved()
    sessions = [EditorSession(root, edit_url(job)) for _ in range(3)]
    for number, editing in enumerate(sessions):
        editing.look(schedule=f"{number} 5 * * *", reason=f"number {number}")
    answers = at_once(*(editing.confirm for editing in sessions))
    assert sorted("the job is at version 2 now" in text for text in answers) == [False, True, True]
    assert JobVersion.objects.filter(job=job).count() == 2
    assert Job.objects.get().version == 2


def test_of_several_concurrent_additions_of_one_name_exactly_one_job_is_stored_whole(root: Client) -> None:
    sessions = [EditorSession(root, "/admin/punctual/job/add/") for _ in range(3)]
    for number, editing in enumerate(sessions):
        task = {"tasks-0-name": f"step {number}", "tasks-0-function": FUNCTIONS[0]}
        editing.look(name="etl", schedule=f"{number} 5 * * *", reason="wanted", **task)
    answers = at_once(*(editing.confirm for editing in sessions))
    assert sorted("there is a job of this name already" in text for text in answers) == [False, True, True]
    job = Job.objects.get()
    assert list(job.tasks.values_list("name", flat=True)) == [f"step {job.schedule[0]}"]
    assert JobVersion.objects.get().after["schedule"] == job.schedule

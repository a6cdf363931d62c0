"""The page of dead letters groups them by error, at a bounded cost."""

from datetime import datetime, timedelta

import pytest
from django.test import Client

from punctual.jobs.clock import database_now
from punctual.occurrences.models import TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from tests.console.fixtures import Viewer, page, queries
from tests.console.ledger_rows import make_job, make_occurrence, make_run, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2"), pytest.mark.req("TSK-6")]

MINUTE = timedelta(minutes=1)
FULL, MAIL = "a" * 16, "b" * 16


@pytest.fixture
def dead() -> list[TaskRun]:
    """Three dead letters with one error, one with another."""
    now = database_now() - timedelta(hours=1)
    job, other = make_job("etl", now), make_job("mail", now)
    tasks = {job.pk: make_task(job, "load"), other.pk: make_task(other, "send")}
    rows = [(job, 1, "disk full", FULL), (job, 2, "disk full", FULL), (job, 3, "disk full", FULL),
            (other, 1, "no such <user>", MAIL)]  # fmt: skip
    return [
        make_run(
            make_occurrence(owner, now - minute * MINUTE, OccurrenceState.FAILED),
            tasks[owner.pk], RunState.DLQ, error=error, fingerprint=fingerprint,
        )
        for owner, minute, error, fingerprint in rows
    ]  # fmt: skip


def test_each_error_is_one_line_the_most_frequent_first(root: Client, dead: list[TaskRun]) -> None:
    text = page(root, "/admin/dead-letters/")
    assert "4 dead letters, 2 errors" in text
    assert text.index("disk full") < text.index("no such &lt;user&gt;")
    assert "Replay all 4…" in text


def test_an_error_without_a_fingerprint_has_no_buttons_of_its_own(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    make_run(make_occurrence(job, now, OccurrenceState.FAILED), make_task(job), RunState.DLQ, error="old")
    text = page(root, "/admin/dead-letters/")
    assert "old" in text
    assert "dead-letters/purge/" in text, "one for all dead letters"
    assert text.count("dead-letters/purge/") == 1, "none for this error alone"


def test_the_page_needs_permission_to_view_runs(viewer: Viewer) -> None:
    assert viewer("punctual.view_job").get("/admin/dead-letters/").status_code == 403


def test_the_page_takes_the_same_queries_for_many_errors(
    root: Client, dead: list[TaskRun], now: datetime
) -> None:
    few = len(queries(root, "/admin/dead-letters/"))
    for number in range(20):
        job = make_job(f"job {number}", now)
        make_run(
            make_occurrence(job, now, OccurrenceState.FAILED), make_task(job), RunState.DLQ, error=str(number)
        )
    assert len(queries(root, "/admin/dead-letters/")) == few


def test_an_error_leads_to_its_runs(root: Client, dead: list[TaskRun]) -> None:
    text = page(root, f"/admin/punctual/taskrun/?state__exact=dlq&fingerprint__exact={MAIL}")
    assert str(dead[3].pk) in text
    assert str(dead[0].pk) not in text

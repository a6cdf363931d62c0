"""Filters by state find the right rows, over existing indexes."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test import Client

from punctual.occurrences.states import AttemptState, OccurrenceState, RunState
from tests.console.fixtures import page, queries
from tests.console.ledger_rows import make_attempt, make_job, make_occurrence, make_run, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]


@pytest.mark.parametrize("state", [RunState.SCHEDULED, RunState.CLAIMED, RunState.RUNNING, RunState.DLQ])
def test_a_state_finds_its_runs_and_no_others(root: Client, now: datetime, state: RunState) -> None:
    job = make_job("etl", now)
    occurrence = make_occurrence(job, now, OccurrenceState.RUNNING)
    wanted = [make_run(occurrence, make_task(job, "sent"), state, attempts_made=1)]
    if state == RunState.SCHEDULED:
        wanted.append(make_run(occurrence, make_task(job, "unsent"), state, dispatched_at=None))
    others = [
        make_run(occurrence, make_task(job, f"other {other}"), other)
        for other in (RunState.SUCCESS, RunState.RETRY, RunState.SCHEDULED, RunState.RUNNING, RunState.DLQ)
        if other != state
    ]
    text = page(root, f"/admin/punctual/taskrun/?state__exact={state}")
    assert all(str(run.pk) in text for run in wanted)
    assert not [run for run in others if str(run.pk) in text]


def test_running_attempts_are_found(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    occurrence = make_occurrence(job, now, OccurrenceState.RUNNING)
    live = make_attempt(make_run(occurrence, make_task(job), RunState.RUNNING), 0, AttemptState.RUNNING)
    over = make_attempt(make_run(occurrence, make_task(job, "other")))
    text = page(root, "/admin/punctual/attempt/?state__exact=running")
    assert str(live.pk) in text
    assert str(over.pk) not in text


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("path", "index"),
    [
        ("taskrun/?state__exact=scheduled", "run_un"),
        ("taskrun/?state__exact=running", "run_expired"),
        ("attempt/?state__exact=running", "run_expired"),
    ],
)
def test_open_rows_are_found_by_an_index(root: Client, now: datetime, path: str, index: str) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("plans are PostgreSQL's")
    job = make_job("etl", now)
    task = make_task(job)
    for number in range(200):  # of nothing the planner has no opinion
        make_attempt(make_run(make_occurrence(job, now - timedelta(hours=number)), task))
    [asked] = [sql for sql in queries(root, f"/admin/punctual/{path}") if "LIMIT 51" in sql]
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE punctual_occurrence, punctual_taskrun, punctual_attempt")
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {asked.replace('%', '%%')}")
        assert index in "\n".join(line for (line,) in cursor.fetchall())

"""The first page: how it all stands, for whoever may know."""

import re
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from beat.models import Beat
from console.overview import overview
from console.pulse import counters
from jobs.clock import database_now
from occurrences.models import Cursor
from occurrences.states import OccurrenceState as S
from occurrences.states import RunState as R
from tests.console.pages import Viewer, page
from tests.console.rows import make_job, make_occurrence, make_run, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]

MINUTE = timedelta(minutes=1)


def test_the_counters_count_each_kind_in_one_statement(now: datetime) -> None:
    job = make_job("etl", now)
    task = make_task(job)
    make_job("held", now, paused_at=now)
    make_job("gone", now, paused_at=now, removed_at=now)
    make_occurrence(job, now + MINUTE, S.PENDING)
    make_occurrence(job, now, S.PENDING, late_at=now + MINUTE)
    make_occurrence(job, now - MINUTE, S.PENDING, late_at=now)
    make_occurrence(job, now - 2 * MINUTE, S.QUEUED)
    running = make_occurrence(job, now - 3 * MINUTE, S.RUNNING)
    make_occurrence(job, now - 4 * MINUTE, S.DISPATCHED)
    make_run(running, task, R.RETRY)
    dead = make_occurrence(job, now - 5 * MINUTE, S.FAILED)
    make_run(dead, task, R.DLQ)
    settled = make_occurrence(job, now - 6 * MINUTE, S.FAILED)
    make_run(settled, task, R.DLQ, resolved_at=now, resolution="purged")
    with CaptureQueriesContext(connection) as queries:
        found = {counter.kind.name: counter.value for counter in counters(now)}
    assert found == {"due": 2, "running": 2, "queued": 1, "retrying": 1, "late": 1, "dead": 1, "paused": 1}
    assert len(queries) == 1


def test_a_counter_stops_counting_where_it_would_be_dear(
    root: Client, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.pulse.MOST", 2)
    for number in range(4):
        make_job(f"job {number}", now, paused_at=now)
    paused = counters(now)[-1]
    assert (paused.value, paused.shown) == (3, "2+")
    assert "<b>2+</b> paused" in page(root, "/admin/pulse/")


def test_a_counter_leads_to_the_rows_it_counted(root: Client) -> None:
    now = database_now()
    job = make_job("etl", now)
    due = make_occurrence(job, now - MINUTE, S.PENDING)
    ahead = make_occurrence(job, now + 2 * MINUTE, S.PENDING)
    for counter in counters(now):
        page(root, counter.url)
    shown = page(root, counters(now)[0].url)
    assert str(due.pk) in shown
    assert str(ahead.pk) not in shown


@pytest.mark.parametrize("path", ["/admin/", "/admin/jobs/job/", "/admin/timeline/", "/admin/auth/user/"])
def test_the_counters_are_on_every_page_and_kept_fresh(root: Client, path: str) -> None:
    assert 'data-live="/admin/pulse/"' in page(root, path)
    assert 'data-counter="dead"' in page(root, "/admin/pulse/")


def test_whoever_may_not_see_the_ledger_sees_no_numbers_of_it(viewer: Viewer) -> None:
    client = viewer("jobs.view_job")
    text = page(client, "/admin/")
    assert "data-counter" not in text
    assert "Starts per minute" not in text
    assert client.get("/admin/pulse/").status_code == 403


def test_the_overview_names_what_runs_what_fails_and_what_is_next(now: datetime) -> None:
    bad, good = make_job("bad", now), make_job("good", now)
    for minute in range(3):
        make_occurrence(bad, now - minute * MINUTE, S.FAILED)
    make_occurrence(good, now - timedelta(days=2), S.FAILED)
    running = make_occurrence(good, now - MINUTE, S.RUNNING)
    held = make_run(running, make_task(good), R.RUNNING, claimed_by="w1", started_at=now)
    waits = make_run(running, make_task(good, "other"), R.SCHEDULED, dispatched_at=now - MINUTE)
    later, sooner = (make_occurrence(good, now + minute * MINUTE, S.PENDING) for minute in (9, 4))
    Beat.objects.create(name="b1", started_at=now, ticked_at=now - MINUTE, lag=timedelta())
    found = overview(now)
    assert [(one.job, one.failures, one.last) for one in found.failing] == [(bad, 3, now)]
    assert found.running == [running]
    assert found.upcoming == [sooner, later]
    assert [(worker.name, worker.runs) for worker in found.workers] == [(held.claimed_by, 1)]
    assert found.queue_age == now - (waits.dispatched_at or now)
    assert [(beat.name, beat.age, beat.silent) for beat in found.beats] == [("b1", MINUTE, True)]


def test_the_overview_names_jobs_that_cannot_be_planned(root: Client, now: datetime) -> None:
    for name, problem in (("good", ""), ("bad", "minute: 99 is out of range"), ("worse", "no such zone")):
        facts = {"settled_until": now, "problem": problem}
        Cursor.objects.update_or_create(job=make_job(name, now), defaults=facts)
    assert [one.job.name for one in overview(now).broken] == ["bad", "worse"]
    assert "minute: 99 is out of range" in page(root, "/admin/")


def test_an_empty_overview_says_what_is_missing(root: Client) -> None:
    text = page(root, "/admin/")
    assert "No beat has ticked" in text
    assert "Nothing is planned" in text


def test_a_new_ledger_is_told_how_to_begin_and_one_with_jobs_is_not(root: Client, now: datetime) -> None:
    assert "Nothing is scheduled yet" in page(root, "/admin/")
    make_job("etl", now)
    assert "Nothing is scheduled yet" not in page(root, "/admin/")


@pytest.mark.parametrize(
    ("ages", "said"),
    [
        ([], "No beat has ticked: nothing will start."),
        ([30, 600], "The last beat fell silent 30 s ago: nothing will start."),
        ([3, 600], ""),
    ],
)
def test_it_sounds_the_alarm_when_no_beat_ticks(now: datetime, ages: list[int], said: str) -> None:
    make_job("etl", now)
    for age in ages:
        ticked = now - timedelta(seconds=age)
        Beat.objects.create(name=f"b{age}", started_at=now, ticked_at=ticked, lag=timedelta())
    assert overview(now).alarm == said


def test_without_jobs_nobody_waits_for_a_beat(now: datetime) -> None:
    assert overview(now).alarm == ""


def test_no_page_of_ours_runs_a_script_from_inside_itself(root: Client) -> None:
    """What a strict content policy would refuse."""
    text = page(root, "/admin/timeline/")
    own = text[text.index('id="content-main"') :]
    assert not re.findall(r"<script(?![^>]*src=)|\son\w+=", own[: own.index("</section>")])

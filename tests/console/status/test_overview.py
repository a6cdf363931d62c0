"""The overview and the header counts."""

import re
from datetime import datetime, timedelta
from itertools import count

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from punctual.console.status.header_counts import header_counts
from punctual.console.status.overview import overview
from punctual.execution.models import Process
from punctual.jobs.clock import database_now
from punctual.occurrences.models import Cursor
from punctual.occurrences.states import OccurrenceState as S
from punctual.occurrences.states import RunState as R
from tests.console.fixtures import Viewer, page
from tests.console.ledger_rows import make_job, make_occurrence, make_run, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]

MINUTE = timedelta(minutes=1)


def test_the_header_counts_are_read_in_one_statement(now: datetime) -> None:
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
        found = {counter.kind.name: counter.value for counter in header_counts(now)}
    counts = {"due": 2, "running": 0, "dispatched": 1, "queued": 1, "retrying": 1, "late": 1}
    assert found == counts | {"dead": 1, "paused": 1}
    assert len(queries) == 1


def test_a_header_count_stops_at_its_limit(
    root: Client, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("punctual.console.status.header_counts.MAX_COUNTED", 2)
    for number in range(4):
        make_job(f"job {number}", now, paused_at=now)
    paused = header_counts(now)[-1]
    assert (paused.value, paused.text) == (3, "2+")
    assert "<b>2+</b> paused" in page(root, "/admin/pulse/")


def test_a_header_count_links_to_the_rows_it_counted(root: Client) -> None:
    """Different numbers of rows for each, so that no list can be taken for another."""
    now = database_now()
    job = make_job("etl", now)
    tasks = [make_task(job, f"step {number}", position=number) for number in range(9)]
    make_occurrence(job, now + MINUTE, S.PENDING)
    moments = (now - (number + 1) * MINUTE for number in count())
    for state, number, facts in (
        (S.PENDING, 2, {"late_at": now + MINUTE}),
        (S.PENDING, 3, {"late_at": now}),
        (S.DISPATCHED, 4, {}),
        (S.QUEUED, 6, {}),
    ):
        for _ in range(number):
            make_occurrence(job, next(moments), state, **facts)
    running = make_occurrence(job, next(moments), S.RUNNING)
    for task, run in zip(tasks, [R.RUNNING] * 7 + [R.CLAIMED, R.RETRY], strict=True):
        make_run(running, task, run)
    counters = {counter.kind.name: counter for counter in header_counts(now)}
    counts = {"due": 5, "late": 3, "dispatched": 4, "queued": 6, "running": 7, "retrying": 1}
    for name, number in counts.items():
        answer = root.get(counters[name].url)
        assert (name, counters[name].value) == (name, number)
        assert (name, len(answer.context["cl"].result_list)) == (name, number)


@pytest.mark.parametrize("path", ["/admin/", "/admin/punctual/job/", "/admin/timeline/", "/admin/auth/user/"])
def test_the_header_counts_are_on_every_page_and_refreshed(root: Client, path: str) -> None:
    assert 'data-live="/admin/pulse/"' in page(root, path)
    assert 'data-counter="dead"' in page(root, "/admin/pulse/")


def test_without_the_permission_to_view_the_ledger_no_counts_are_shown(viewer: Viewer) -> None:
    client = viewer("punctual.view_job")
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
    Process.objects.create(
        kind="beat", name="b1", started_at=now, seen_at=now - MINUTE, tick_duration=timedelta()
    )
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
    assert [one.job.name for one in overview(now).unplannable] == ["bad", "worse"]
    assert "minute: 99 is out of range" in page(root, "/admin/")


def test_an_empty_overview_says_what_is_missing(root: Client) -> None:
    text = page(root, "/admin/")
    assert "No beat has ticked" in text
    assert "Nothing is planned" in text


def test_only_an_empty_ledger_shows_how_to_begin(root: Client, now: datetime) -> None:
    assert "Nothing is scheduled yet" in page(root, "/admin/")
    make_job("etl", now)
    assert "Nothing is scheduled yet" not in page(root, "/admin/")


def test_an_empty_ledger_offers_to_add_a_job_to_users_with_the_permission(viewer: Viewer) -> None:
    text = page(viewer("punctual.view_occurrence", "punctual.add_job"), "/admin/")
    assert 'href="/admin/punctual/job/add/"' in text


@pytest.mark.parametrize(
    ("ages", "said"),
    [
        ([], "No beat has ticked: nothing will start."),
        ([30, 600], "The last beat fell silent 30 s ago: nothing will start."),
        ([3, 600], ""),
    ],
)
def test_the_overview_warns_when_no_beat_ticks(now: datetime, ages: list[int], said: str) -> None:
    make_job("etl", now)
    for age in ages:
        ticked = now - timedelta(seconds=age)
        Process.objects.create(
            kind="beat", name=f"b{age}", started_at=now, seen_at=ticked, tick_duration=timedelta()
        )
    assert overview(now).alarm == said


def test_without_jobs_a_missing_beat_raises_no_warning(now: datetime) -> None:
    assert overview(now).alarm == ""


def test_no_page_has_an_inline_script(root: Client) -> None:
    """A strict content security policy would refuse it."""
    text = page(root, "/admin/timeline/")
    own = text[text.index('id="content-main"') :]
    assert not re.findall(r"<script(?![^>]*src=)|\son\w+=", own[: own.index("</section>")])

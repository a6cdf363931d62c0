"""The timeline: a lane per job with recorded and planned occurrences."""

from datetime import datetime, timedelta

import pytest
from django.test import Client

from punctual.console.status.timeline import (
    MAX_MARKS,
    SPANS,
    View,
    draw_axis,
    lanes,
    planned_marks,
    recorded_marks,
)
from punctual.occurrences.states import OccurrenceState as S
from tests.console.fixtures import Viewer, page, queries
from tests.console.ledger_rows import make_job, make_occurrence

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def test_a_mark_has_the_length_of_the_run_and_the_look_of_its_outcome(now: datetime) -> None:
    job = make_job("etl", now - HOUR)
    make_occurrence(job, now - 30 * MINUTE, S.FAILED, finished_at=now - 20 * MINUTE)
    make_occurrence(job, now - 5 * MINUTE, S.RUNNING)
    make_occurrence(job, now - 2 * MINUTE, S.SKIPPED, started_at=None)
    make_occurrence(job, now - 2 * HOUR)
    view = View.around(now, HOUR)
    found = sorted(recorded_marks([job.pk], view)[job.pk], key=lambda mark: mark.start)
    assert [(mark.look, mark.start, mark.end) for mark in found] == [
        ("bad", now - 30 * MINUTE, now - 20 * MINUTE),
        ("busy", now - 5 * MINUTE, now),
        ("none", now - 2 * MINUTE, None),
    ]
    assert "took 10 min 00 s" in found[0].title


def test_planned_marks_come_from_the_schedule(now: datetime) -> None:
    view = View.around(now, HOUR)
    job = make_job("etl", now - HOUR, schedule="*/5 * * * *")
    assert [mark.start for mark in planned_marks(job, view)] == [now + 5 * MINUTE, now + 10 * MINUTE]
    job.paused_at = now
    assert planned_marks(job, view) == []


def test_a_job_with_a_broken_schedule_still_has_a_lane(now: datetime) -> None:
    job = make_job("etl", now, schedule="99 * * * *")
    assert len(lanes([job], View.around(now, HOUR))) == 1


def test_a_busy_lane_shows_its_newest(now: datetime) -> None:
    job = make_job("etl", now)
    for second in range(MAX_MARKS + 5):
        make_occurrence(job, now - second * timedelta(seconds=1))
    found = recorded_marks([job.pk], View.around(now, HOUR))[job.pk]
    assert len(found) == MAX_MARKS
    assert max(mark.start for mark in found) == now


@pytest.mark.parametrize("span", SPANS)
def test_ticks_are_at_round_times(now: datetime, span: str) -> None:
    text = draw_axis(View.around(now + timedelta(seconds=17), SPANS[span]))
    assert "now" in text
    assert 2 <= text.count("<text") <= 8


def test_the_page_costs_the_same_for_few_jobs_and_many(root: Client, now: datetime) -> None:
    make_occurrence(make_job("a", now), now)
    few = len(queries(root, "/admin/timeline/"))
    for number in range(50):
        make_occurrence(make_job(f"b {number}", now), now)
    assert len(queries(root, "/admin/timeline/")) == few
    text = page(root, "/admin/timeline/?q=b+4")
    assert ">b 49</span>" in text
    assert ">b 3</span>" not in text
    assert 'rel="next"' in page(root, "/admin/timeline/")


def test_the_timeline_needs_the_permission_to_view_the_ledger(viewer: Viewer) -> None:
    assert viewer("punctual.view_job").get("/admin/timeline/").status_code == 403

"""The Gantt chart: when runs worked, and when they waited."""

from datetime import datetime, timedelta

import pytest

from punctual.console.ledger.gantt import Frame, draw_gantt, frame_of, occurrence_spans, run_spans
from punctual.occurrences.models import Occurrence
from punctual.occurrences.states import AttemptState as A
from punctual.occurrences.states import OccurrenceState as S
from punctual.occurrences.states import RunState as R
from tests.console.ledger_rows import make_attempt, make_job, make_occurrence, make_run, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]

SECOND = timedelta(seconds=1)


@pytest.fixture
def occurrence(now: datetime) -> Occurrence:
    job = make_job("etl", now)
    return make_occurrence(
        job, now, S.FAILED, run_at=now + 2 * SECOND, fired_at=now + 3 * SECOND, started_at=now + 5 * SECOND,
        finished_at=now + 65 * SECOND,
    )  # fmt: skip


def test_an_occurrence_waits_to_be_fired_then_for_a_worker_then_runs(
    occurrence: Occurrence, now: datetime
) -> None:
    found = [(one.look, one.start - now, one.end - now) for one in occurrence_spans(occurrence, now)]
    assert found == [
        ("wait", 2 * SECOND, 3 * SECOND),
        ("wait", 3 * SECOND, 5 * SECOND),
        ("bad", 5 * SECOND, 65 * SECOND),
    ]


def test_a_run_waits_before_each_attempt(occurrence: Occurrence, now: datetime) -> None:
    run = make_run(
        occurrence, make_task(occurrence.job), R.DLQ, attempts_made=2, finished_at=now + 60 * SECOND
    )
    first = make_attempt(run, 0, A.TIMEOUT, started_at=now + 5 * SECOND, finished_at=now + 10 * SECOND)
    second = make_attempt(run, 1, A.SUCCESS, started_at=now + 40 * SECOND, finished_at=now + 60 * SECOND)
    found = run_spans(run, [second, first], now)
    assert [(one.look, (one.start - now) / SECOND, (one.end - now) / SECOND) for one in found] == [
        ("wait", 3, 5),
        ("bad", 5, 10),
        ("wait", 10, 40),
        ("good", 40, 60),
    ]
    assert found[1].title == "attempt 1: timed out, 5 s"
    assert str(first.pk) in found[1].url


def test_a_run_that_still_waits_is_drawn_up_to_now(now: datetime) -> None:
    occurrence = make_occurrence(make_job("etl", now), now, S.RUNNING)
    run = make_run(occurrence, make_task(occurrence.job), R.RETRY, attempts_made=1)
    failed = make_attempt(run, 0, A.FAILED, finished_at=now + 2 * SECOND)
    last = run_spans(run, [failed], now + 9 * SECOND)[-1]
    assert (last.look, last.end - last.start) == ("wait", 7 * SECOND)
    running = make_attempt(run, 1, A.RUNNING, started_at=now + 9 * SECOND)
    assert run_spans(run, [failed, running], now + 20 * SECOND)[-1].look == "busy"


def test_the_chart_has_a_minimum_width(now: datetime) -> None:
    occurrence = make_occurrence(make_job("etl", now), now, finished_at=now)
    frame = frame_of(occurrence, now)
    assert frame == Frame(now, now + SECOND)
    assert frame.place(now + 9 * SECOND) == 100


def test_each_lane_has_a_name_and_a_label_for_screen_readers(occurrence: Occurrence, now: datetime) -> None:
    run = make_run(occurrence, make_task(occurrence.job, "<load>"), attempts_made=1)
    attempt = make_attempt(run, started_at=now + 5 * SECOND, finished_at=now + 9 * SECOND)
    text = draw_gantt(occurrence, [run], [attempt], now)
    assert "<load>" not in text
    assert 'aria-label="&lt;load&gt;: waited 2 s; attempt 1: success, 4 s"' in text

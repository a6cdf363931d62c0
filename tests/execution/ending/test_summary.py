import json
from datetime import UTC, datetime, timedelta

import pytest

from punctual.execution.ending.steps import summary
from punctual.occurrences.states import OccurrenceState, RunState
from tests.occurrences.factories import a_job, a_run, a_task, an_occurrence, occurrence_facts, run_facts

pytestmark = pytest.mark.req("EXE-8")

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
JOB = a_job("nightly", NOW, version=7)


def test_a_report_tells_what_ran_how_long_and_why_it_stopped() -> None:
    occurrence = an_occurrence(JOB, NOW, OccurrenceState.RUNNING, config={"mode": "parallel"})
    failed = a_run(
        occurrence,
        a_task(JOB, "load", position=0),
        RunState.DLQ,
        attempts_made=3,
        started_at=NOW,
        finished_at=NOW + timedelta(seconds=90),
        error="ValueError: broken",
        reason="failed after 3 attempts",
        policy={"failure_strategy": "continue"},
    )
    canceled = a_run(occurrence, a_task(JOB, "send", position=1), RunState.CANCELED, reason="too late")
    end = NOW + timedelta(minutes=2)

    runs = [run_facts(canceled), run_facts(failed)]
    assert summary(occurrence_facts(occurrence), runs, OccurrenceState.FAILED, end) == {
        "occurrence": occurrence.display_id,
        "job": "nightly",
        "job_version": 7,
        "cause": "schedule",
        "scheduled_for": "2026-01-05T12:00:00+00:00",
        "mode": "parallel",
        "failure_strategy": "fail_fast",
        "outcome": "failed",
        "started_at": "2026-01-05T12:00:00+00:00",
        "finished_at": "2026-01-05T12:02:00+00:00",
        "duration": 120.0,
        "tasks": [
            {
                "task": "load",
                "status": "dlq",
                "failure_strategy": "continue",
                "attempts": 3,
                "started_at": "2026-01-05T12:00:00+00:00",
                "finished_at": "2026-01-05T12:01:30+00:00",
                "duration": 90.0,
                "error": "ValueError: broken",
                "reason": "failed after 3 attempts",
            },
            {
                "task": "send",
                "status": "canceled",
                "failure_strategy": "fail_fast",
                "attempts": 0,
                "started_at": None,
                "finished_at": "2026-01-05T12:00:00+00:00",
                "duration": None,
                "error": "",
                "reason": "too late",
            },
        ],
    }


@pytest.mark.parametrize("outcome", OccurrenceState)
@pytest.mark.parametrize("state", RunState)
def test_every_report_is_plain_json(outcome: OccurrenceState, state: RunState) -> None:
    occurrence = an_occurrence(JOB, NOW, outcome)
    run = a_run(occurrence, a_task(JOB), state)
    report = summary(occurrence_facts(occurrence), [run_facts(run)], outcome, NOW)
    assert json.loads(json.dumps(report)) == report
    assert (report["outcome"], report["tasks"][0]["status"]) == (outcome.value, state.value)


def test_an_occurrence_that_never_started_has_no_duration() -> None:
    report = summary(occurrence_facts(an_occurrence(JOB, NOW)), [], OccurrenceState.CANCELED, NOW)
    assert (report["started_at"], report["duration"], report["tasks"]) == (None, None, [])

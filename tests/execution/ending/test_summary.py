import json
from datetime import UTC, datetime, timedelta

import pytest

from punctual.execution.ending.attempt_report import AttemptFacts
from punctual.execution.ending.steps import summary
from punctual.occurrences.states import OccurrenceState, Reason, RunState
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
        attempts_made=2,
        started_at=NOW + timedelta(seconds=60),
        finished_at=NOW + timedelta(seconds=90),
        error="ValueError: broken",
        reason="failed after 2 attempts",
        policy={"failure_strategy": "continue"},
    )
    reason = f"{Reason.OTHER_TASK_FAILED}: load"
    canceled = a_run(occurrence, a_task(JOB, "send", position=1), RunState.CANCELED, reason=reason)
    times = [(5, 15), (60, 90)]
    attempts = [
        AttemptFacts("failed", NOW + timedelta(seconds=start), NOW + timedelta(seconds=end), f"E: {start}")
        for start, end in times
    ]
    end = NOW + timedelta(minutes=2)

    runs = [run_facts(canceled), run_facts(failed)]
    facts = occurrence_facts(occurrence)
    assert summary(facts, runs, OccurrenceState.FAILED, end, {failed.id: attempts}) == {
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
                "attempts_made": 2,
                "started_at": "2026-01-05T12:00:05+00:00",
                "finished_at": "2026-01-05T12:01:30+00:00",
                "duration": 85.0,
                "error": "ValueError: broken",
                "reason": "failed after 2 attempts",
                "canceled_by": None,
                "attempts": [
                    {
                        "status": "failed",
                        "started_at": "2026-01-05T12:00:05+00:00",
                        "finished_at": "2026-01-05T12:00:15+00:00",
                        "duration": 10.0,
                        "waited": 5.0,
                        "error": "E: 5",
                    },
                    {
                        "status": "failed",
                        "started_at": "2026-01-05T12:01:00+00:00",
                        "finished_at": "2026-01-05T12:01:30+00:00",
                        "duration": 30.0,
                        "waited": 45.0,
                        "error": "E: 60",
                    },
                ],
            },
            {
                "task": "send",
                "status": "canceled",
                "failure_strategy": "fail_fast",
                "attempts_made": 0,
                "started_at": None,
                "finished_at": "2026-01-05T12:00:00+00:00",
                "duration": None,
                "error": "",
                "reason": reason,
                "canceled_by": "load",
                "attempts": [],
            },
        ],
    }


@pytest.mark.parametrize("outcome", OccurrenceState)
@pytest.mark.parametrize("state", RunState)
def test_every_report_is_plain_json(outcome: OccurrenceState, state: RunState) -> None:
    occurrence = an_occurrence(JOB, NOW, outcome)
    run = a_run(occurrence, a_task(JOB), state)
    report = summary(occurrence_facts(occurrence), [run_facts(run)], outcome, NOW, {})
    assert json.loads(json.dumps(report)) == report
    assert (report["outcome"], report["tasks"][0]["status"]) == (outcome.value, state.value)


def test_an_occurrence_that_never_started_has_no_duration() -> None:
    report = summary(occurrence_facts(an_occurrence(JOB, NOW)), [], OccurrenceState.CANCELED, NOW, {})
    assert (report["started_at"], report["duration"], report["tasks"]) == (None, None, [])

"""Runs with siblings leave the same rows with both engines, and take few statements."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.report import end_runs, record_attempts, report
from punctual.execution.ending.settle import Settled
from punctual.execution.worker.claim import Claim, claim
from punctual.jobs.models import Job
from punctual.occurrences import transitions
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from tests.execution.conftest import NOW
from tests.execution.ending.test_engines import LATER, all_begun, both, only_postgresql, reported
from tests.occurrences.factories import a_run, a_task, an_occurrence, saved

__all__ = ["only_postgresql"]
pytestmark = [pytest.mark.django_db, pytest.mark.postgres, pytest.mark.req("EXE-1")]

S, R = OccurrenceState, RunState
END = LATER + timedelta(seconds=1)


def fan(job: Job, members: int = 3, **columns: Any) -> list[UUID]:
    """Released members of one occurrence."""
    tasks = [saved(a_task(job, f"step-{number}", position=number)) for number in range(members)]
    occurrence = saved(an_occurrence(job, NOW, S.DISPATCHED))
    return [saved(a_run(occurrence, task, **columns)).id for task in tasks]


def taken(ids: Sequence[UUID], *, together: bool, now: datetime = LATER) -> list[Claim]:
    messages = [ids] if together else [[id_] for id_ in ids]
    return all_begun(item for message in messages for item in claim(message, worker="w", now=now))


@pytest.mark.parametrize("together", [True, False])
def test_members_leave_the_same_rows(job: Job, together: bool) -> None:  # noqa: FBT001
    ids = fan(job)

    def act() -> None:
        claims = taken(ids, together=together)
        for part in [claims] if together else [[item] for item in claims]:
            report([reported(item) for item in part], now=END)

    through_orm, in_sql = both(act)
    assert in_sql == through_orm
    assert {row["state"] for row in in_sql} == {"completed", "success"}


@pytest.mark.req("EXE-3")
@pytest.mark.parametrize("strategy", ["continue", "fail_fast"])
def test_members_beside_a_failure_leave_the_same_rows(job: Job, strategy: str) -> None:
    ids = fan(job, policy={**a_run(Occurrence(job=job), a_task(job)).policy, "failure_strategy": strategy})

    def act() -> None:
        first, failing, last = taken(ids, together=False)
        report([reported(first)], now=END)
        report([reported(failing, Ending.FATAL)], now=END)
        report([reported(last)], now=END)

    through_orm, in_sql = both(act)
    assert in_sql == through_orm
    outcome = S.COMPLETED_WITH_ERRORS if strategy == "continue" else S.FAILED
    assert in_sql[0]["state"] == outcome


def test_a_sequence_goes_on_to_its_next_step(job: Job) -> None:
    first, *others = fan(job)
    TaskRun.objects.filter(id__in=others).update(available_at=None)

    def act() -> None:
        assert _released(first) == (others[0],)
        assert _released(others[0]) == (others[1],)
        assert _released(others[1]) == ()

    through_orm, in_sql = both(act)
    assert in_sql == through_orm
    assert in_sql[0]["state"] == S.COMPLETED


def _released(id_: UUID) -> tuple[UUID, ...]:
    claims = taken([id_], together=False, now=END)
    return report([reported(item) for item in claims], now=END).released


@pytest.mark.parametrize("together", [True, False])
def test_the_log_of_a_success_is_kept(job: Job, together: bool) -> None:  # noqa: FBT001
    ids = fan(job)
    said = 'a "quoted" line\nand \\ünother'

    def act() -> None:
        claims = taken(ids, together=together)
        if together:
            record_attempts([claims[0].begun], now=LATER)  # one attempt is a row already
        results = [*[Result(Ending.SUCCESS, log=said)] * 2, Result(Ending.SUCCESS)]
        reports = [
            replace(reported(item), result=result) for item, result in zip(claims, results, strict=True)
        ]
        for part in [reports] if together else [[item] for item in reports]:
            report(part, now=END)

    through_orm, in_sql = both(act)
    assert in_sql == through_orm
    assert sorted(row["log"] for row in in_sql if "log" in row) == ["", said, said]


@pytest.mark.req("TSK-2")
def test_a_late_member_changes_nothing(job: Job) -> None:
    ids = fan(job)
    first, *others = taken(ids, together=True)
    transitions.cancel([first.run.id], reason="reaped", now=END)
    assert report([reported(first)], now=END).fenced == 1
    assert TaskRun.objects.get(id=first.run.id).state == R.CANCELED
    # It had begun nevertheless, and has an attempt.
    assert Attempt.objects.get().state == "canceled"
    assert report([reported(item) for item in others], now=END).finished == (first.run.occurrence.id,)


@pytest.mark.req("TSK-9")
def test_a_report_repeated_after_a_broken_connection_settles_the_occurrence(job: Job) -> None:
    ids = fan(job, 2)
    first, last = taken(ids, together=False)
    report([reported(first)], now=END)
    end_runs([reported(last)], now=END)  # committed, and then the connection broke
    settled = report([reported(last)], now=END)
    assert (settled.fenced, settled.finished) == (1, (last.run.occurrence.id,))


@pytest.mark.req("JOB-9", "OCC-4")
def test_hooks_stay_due_and_waiting_occurrences_are_admitted(job: Job) -> None:
    ids = fan(job, 2)
    row = Occurrence.objects.get()
    Occurrence.objects.update(config=row.config | {"on_complete": ["a.hook"]})
    waiting = saved(an_occurrence(job, LATER, S.QUEUED))
    claims = taken(ids, together=True)
    settled = report([reported(item) for item in claims], now=END)
    owing = claims[0].run.occurrence.id
    assert (settled.with_hooks, settled.finished) == ((owing,), (owing,))
    assert {TaskRun.objects.get(id=id_).occurrence_id for id_ in settled.released} == {waiting.id}


@pytest.mark.parametrize("members", [2, 40])
def test_a_member_takes_three_statements_and_the_last_one_six(
    django_assert_num_queries: Callable[[int], Any], job: Job, members: int
) -> None:
    *others, last = fan(job, members)
    for id_ in others[1:]:
        report([reported(item) for item in taken([id_], together=False)], now=END)
    for id_, statements, finished in ((others[0], 3, 0), (last, 6, 1)):
        # The last one locks its occurrence in a transaction, here between two statements for a savepoint.
        with django_assert_num_queries(statements + 2 * finished):
            settled = report([reported(item) for item in taken([id_], together=False)], now=END)
        assert len(settled.finished) == finished


def test_a_whole_fan_out_in_one_message_takes_six(
    django_assert_num_queries: Callable[[int], Any], job: Job
) -> None:
    ids = fan(job, 40)
    with django_assert_num_queries(6 + 2):
        settled = report([reported(item) for item in taken(ids, together=True)], now=END)
    assert settled == Settled(finished=(TaskRun.objects.filter(id=ids[0]).get().occurrence_id,))

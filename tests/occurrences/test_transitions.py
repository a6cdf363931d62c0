"""Every transition from every state: it moves what the table allows, and nothing else."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection

from punctual.jobs.database import is_postgresql
from punctual.jobs.ids import attempt_id
from punctual.jobs.models import Job, Task
from punctual.occurrences import transitions
from punctual.occurrences.engines.contract import Closing, Ended, Take
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import (
    ATTEMPT_FINAL,
    OCCURRENCE_FINAL,
    OCCURRENCE_MOVES,
    OCCURRENCE_OPEN,
    RUN_FINAL,
    RUN_HELD,
    RUN_MOVES,
    RUN_OPEN,
    AttemptState,
    OccurrenceState,
    Reason,
    RunState,
    occurrence_sources,
)
from tests.occurrences.factories import (
    LEASE,
    a_job,
    a_run,
    a_run_end,
    a_task,
    an_attempt,
    an_occurrence,
    columns_of,
    saved,
)

pytestmark = [pytest.mark.django_db, pytest.mark.req("OCC-3")]

S, R = OccurrenceState, RunState
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)
TOKEN = uuid4()

Call = Callable[[UUID], int]


def closing(outcome: OccurrenceState) -> Call:
    report = json.dumps({"outcome": outcome})

    def close(id_: UUID) -> int:
        item = Closing(id_, outcome, reason="", finalized=True, report=report)
        return len(transitions.close([item], states=OCCURRENCE_OPEN, now=LATER))

    return close


def take(*attempts: UUID, now: datetime = LATER) -> Take:
    return Take(TOKEN, "w", now, now + LEASE, attempts)


def ending(state: RunState, **fields: Any) -> Call:
    """End a run under the token, and its attempt with it, whatever state the run is in."""

    def end(id_: UUID) -> int:
        run = TaskRun.objects.select_related("occurrence").get(id=id_)
        ended = transitions.end([a_run_end(run, state, token=TOKEN, **fields)], now=LATER)
        assert ended.runs <= {id_}
        assert ended.closed == {}
        return len(ended.runs)

    return end


OUTCOMES = (S.COMPLETED, S.COMPLETED_WITH_ERRORS, S.FAILED, S.CANCELED, S.FAILED_STALE)
# by name: the call, and the state it leads to
OCCURRENCE_CALLS: Mapping[str, tuple[Call, OccurrenceState]] = {
    "skip": (lambda id_: transitions.skip([id_], reason=Reason.OPERATOR, now=LATER), S.SKIPPED),
    "miss": (lambda id_: transitions.miss([id_], reason=Reason.OPERATOR, now=LATER), S.MISSED),
    "queue": (lambda id_: transitions.queue([id_], reason=Reason.OPERATOR), S.QUEUED),
    "fire": (lambda id_: transitions.fire([id_], now=LATER), S.DISPATCHED),
    "start": (lambda id_: transitions.start([id_], now=LATER), S.RUNNING),
    **{f"finish as {outcome}": (closing(outcome), outcome) for outcome in OUTCOMES},
}
# by name: the call, the states it passes through, and where it starts
RUN_CALLS: Mapping[str, tuple[Call, tuple[RunState, ...], set[RunState]]] = {
    "claim and begin": (
        lambda id_: len(transitions.claim([id_], take(attempt_id(id_, 0)))),
        (R.CLAIMED, R.RUNNING),
        {R.SCHEDULED},
    ),
    "claim": (lambda id_: len(transitions.claim([id_], take())), (R.CLAIMED,), {R.SCHEDULED}),
    "begin": (lambda id_: len(transitions.begin({id_: NOW}, token=TOKEN)), (R.RUNNING,), {R.CLAIMED}),
    "hand back": (
        lambda id_: transitions.hand_back([id_], token=TOKEN, now=LATER),
        (R.SCHEDULED,),
        {R.CLAIMED},
    ),
    # A run of a bundle may begin and end in one statement: its attempt becomes a row with its result.
    "end as success": (ending(R.SUCCESS), (R.RUNNING, R.SUCCESS), set(RUN_HELD)),
    "end as retry": (
        ending(R.RETRY, available_at=LATER, error="e"),
        (R.RUNNING, R.RETRY),
        set(RUN_HELD),
    ),
    "end as snoozed": (
        ending(R.RETRY, available_at=LATER, snoozed=1, attempt_state=AttemptState.SNOOZED),
        (R.RUNNING, R.RETRY),
        set(RUN_HELD),
    ),
    "end as handed back": (
        ending(R.SCHEDULED, available_at=LATER, snoozed=1, attempt_state=AttemptState.RELEASED),
        (R.RUNNING, R.SCHEDULED),
        set(RUN_HELD),
    ),
    "end as failed": (
        ending(R.FAILED, available_at=LATER, error="e"),
        (R.RUNNING, R.FAILED),
        set(RUN_HELD),
    ),
    "end as dead letter": (
        ending(R.DLQ, reason="failed once", error="e", fingerprint="f"),
        (R.RUNNING, R.FAILED, R.DLQ),
        set(RUN_HELD),
    ),
    "end as canceled": (
        ending(R.CANCELED, reason=Reason.CANCELED_BY_TASK, attempt_state=AttemptState.CANCELED),
        (R.RUNNING, R.CANCELED),
        set(RUN_HELD),
    ),
    "cancel": (
        lambda id_: transitions.cancel([id_], reason=Reason.OPERATOR, now=LATER),
        (R.CANCELED,),
        set(RUN_OPEN),
    ),
    "reschedule": (lambda id_: transitions.reschedule([id_], now=LATER), (R.SCHEDULED,), {R.RETRY}),
    "reopen": (lambda id_: transitions.reopen([id_], now=LATER), (R.SCHEDULED,), {R.FAILED}),
    "expire": (lambda id_: transitions.expire([id_], now=LATER), (R.SCHEDULED,), set(RUN_HELD)),
}


@pytest.fixture
def job() -> Job:
    return saved(a_job("job", NOW))


@pytest.fixture
def task(job: Job) -> Task:
    return saved(a_task(job))


@pytest.fixture
def occurrence(job: Job) -> Occurrence:
    return saved(an_occurrence(job, NOW, S.RUNNING))


@pytest.mark.parametrize("source", S)
@pytest.mark.parametrize("name", OCCURRENCE_CALLS)
def test_an_occurrence_moves_along_its_table_only(job: Job, name: str, source: OccurrenceState) -> None:
    call, target = OCCURRENCE_CALLS[name]
    row = saved(an_occurrence(job, NOW, source))
    before = columns_of(Occurrence, row.id)

    changed = call(row.id)

    after = columns_of(Occurrence, row.id)
    if target in OCCURRENCE_MOVES.get(source, ()):
        assert (changed, after["state"]) == (1, target)
        assert (after["finished_at"] is not None) == (target in OCCURRENCE_FINAL)
    else:
        assert (changed, after) == (0, before)


@pytest.mark.req("TSK-1")
@pytest.mark.parametrize("source", R)
@pytest.mark.parametrize("name", RUN_CALLS)
def test_a_run_moves_along_its_table_only(
    occurrence: Occurrence, task: Task, name: str, source: RunState
) -> None:
    call, path, sources = RUN_CALLS[name]
    row = saved(a_run(occurrence, task, source, **{"claim_token": TOKEN} if source in RUN_HELD else {}))
    if source is R.RUNNING:
        saved(an_attempt(row))
    before, attempts = columns_of(TaskRun, row.id), list(Attempt.objects.values())

    changed = call(row.id)

    after = columns_of(TaskRun, row.id)
    if source in sources:
        assert (changed, after["state"]) == (1, path[-1])
        steps = (source, *(path[1:] if path[0] == source else path))
        assert all(target in RUN_MOVES[origin] for origin, target in pairwise(steps))
        assert (after["claim_token"] is not None) == (path[-1] in RUN_HELD)
    else:
        assert (changed, after) == (0, before)
        assert list(Attempt.objects.values()) == attempts


@pytest.mark.parametrize("source", RUN_HELD)
@pytest.mark.parametrize("name", [name for name in RUN_CALLS if name.startswith("end as")])
def test_the_attempt_of_a_run_ends_with_it(
    occurrence: Occurrence, task: Task, name: str, source: RunState
) -> None:
    call, path, _ = RUN_CALLS[name]
    row = saved(a_run(occurrence, task, source, claim_token=TOKEN))
    if source is R.RUNNING:
        saved(an_attempt(row))
    call(row.id)
    row.refresh_from_db()
    (attempt,) = Attempt.objects.all()
    assert attempt.state in ATTEMPT_FINAL
    assert (attempt.number, attempt.finished_at, attempt.worker) == (0, LATER, row.claimed_by)
    assert (row.attempts_made, row.started_at) == (1, attempt.started_at)
    assert row.finished_at == (LATER if path[-1] in RUN_FINAL else None)


@pytest.mark.req("TSK-2")
@pytest.mark.parametrize("source", RUN_HELD)
@pytest.mark.parametrize("state", [state for state in R if state not in RUN_HELD])
def test_an_end_under_an_old_token_changes_nothing(
    occurrence: Occurrence, task: Task, state: RunState, source: RunState
) -> None:
    row = saved(a_run(occurrence, task, source))
    attempt = saved(an_attempt(row))
    before = columns_of(TaskRun, row.id), columns_of(Attempt, attempt.id)
    end = a_run_end(row, state, token=uuid4(), outcome=S.COMPLETED, report="{}")
    assert transitions.end([end], now=LATER) == Ended(set(), {})
    assert (columns_of(TaskRun, row.id), columns_of(Attempt, attempt.id)) == before
    assert columns_of(Occurrence, occurrence.id)["state"] == S.RUNNING


@pytest.mark.req("TSK-2")
def test_only_the_worker_that_holds_a_run_starts_it_or_hands_it_back(
    occurrence: Occurrence, task: Task
) -> None:
    row = saved(a_run(occurrence, task, R.CLAIMED, claim_token=TOKEN))
    assert transitions.begin({row.id: NOW}, token=uuid4()) == []
    assert transitions.hand_back([row.id], token=uuid4(), now=NOW) == 0
    assert columns_of(TaskRun, row.id)["state"] == R.CLAIMED


@pytest.mark.req("TSK-2")
@pytest.mark.req("TSK-3")
def test_a_run_handed_back_before_it_started_uses_no_attempt(occurrence: Occurrence, task: Task) -> None:
    row = saved(a_run(occurrence, task, R.CLAIMED, claim_token=TOKEN, dispatched_at=NOW))
    transitions.hand_back([row.id], token=TOKEN, now=LATER)
    row.refresh_from_db()
    assert (row.available_at, row.dispatched_at, row.attempts_made) == (LATER, None, 0)


@pytest.mark.req("TSK-2")
def test_an_attempt_that_began_before_its_run_was_canceled_counts_once(
    occurrence: Occurrence, task: Task
) -> None:
    row = saved(a_run(occurrence, task, R.CLAIMED, claim_token=TOKEN))
    assert transitions.count_canceled({row.id: 0}) == []
    transitions.cancel([row.id], reason=Reason.OPERATOR, now=LATER)
    assert transitions.count_canceled({row.id: 0}) == [row.id]
    assert transitions.count_canceled({row.id: 0}) == []
    assert columns_of(TaskRun, row.id)["attempts_made"] == 1


def test_every_state_but_the_first_can_be_reached() -> None:
    assert {target for _, target in OCCURRENCE_CALLS.values()} == set(S) - {S.PENDING}
    assert {state for _, path, _ in RUN_CALLS.values() for state in path} == set(R)


@pytest.mark.parametrize("source", S)
def test_only_a_pending_occurrence_is_marked_as_recovery(job: Job, source: OccurrenceState) -> None:
    row = saved(an_occurrence(job, NOW, source, late_at=NOW))
    before = columns_of(Occurrence, row.id)
    changed = transitions.recover([row.id])
    after = columns_of(Occurrence, row.id)
    if source is S.PENDING:
        assert changed == 1
        assert after == before | {"cause": "recovery", "late_at": None}
    else:
        assert (changed, after) == (0, before)


@pytest.mark.parametrize("source", S)
def test_only_a_finished_occurrence_is_finalized_and_only_once(job: Job, source: OccurrenceState) -> None:
    row = saved(an_occurrence(job, NOW, source))
    over = source in OCCURRENCE_FINAL
    assert transitions.finalize([row.id], now=LATER) == int(over)
    assert transitions.finalize([row.id], now=LATER) == 0
    assert columns_of(Occurrence, row.id)["finalized_at"] == (LATER if over else None)


def test_a_start_sets_the_deadline_from_the_occurrence_s_own_timeout(job: Job) -> None:
    row = saved(an_occurrence(job, NOW, S.DISPATCHED, config={"execution_timeout": "90s"}))
    transitions.start([row.id], now=LATER)
    assert columns_of(Occurrence, row.id)["deadline_at"] == LATER + timedelta(seconds=90)


def test_occurrences_that_end_together_each_keep_their_own_outcome_and_report(job: Job) -> None:
    rows = [
        saved(an_occurrence(job, NOW + timedelta(seconds=offset), S.RUNNING, exclusive=False))
        for offset in range(4)
    ]
    ends = dict(zip((row.id for row in rows), (S.COMPLETED, S.FAILED, S.COMPLETED, S.CANCELED), strict=True))
    reports = {id_: {"number": number} for number, id_ in enumerate(ends)}
    closings = [
        Closing(id_, outcome, f"reason {outcome}", id_ == rows[2].id, json.dumps(reports[id_]))
        for id_, outcome in ends.items()
    ]
    assert transitions.close(closings, now=LATER) == dict.fromkeys(ends, False)

    after = [columns_of(Occurrence, row.id) for row in rows]
    assert [row["state"] for row in after] == list(ends.values())
    assert [row["report"] for row in after] == list(reports.values())
    assert [row["reason"] for row in after] == [f"reason {outcome}" for outcome in ends.values()]
    assert [row["finalized_at"] for row in after] == [None, None, LATER, None]
    assert {row["finished_at"] for row in after} == {LATER}


def test_an_occurrence_ends_with_its_only_run_and_says_whether_another_one_waits(job: Job) -> None:
    other = saved(a_job("other", NOW))
    rows = [
        saved(an_occurrence(owner, NOW, S.RUNNING, pool=owner.name, config={"overlap": "queue"}))
        for owner in (job, other)
    ]
    runs = [saved(a_run(row, saved(a_task(row.job)), R.RUNNING)) for row in rows]
    saved(an_occurrence(other, LATER, S.QUEUED, pool="elsewhere"))
    ends = [a_run_end(run, outcome=S.COMPLETED, finalized=True, report='{"n": 1}') for run in runs]
    ended = transitions.end(ends, now=LATER)
    closed = {rows[0].id: False, rows[1].id: True}
    if not is_postgresql(connection):  # the portable engine asks once for all
        closed = dict.fromkeys(closed, True)
    assert ended == Ended({run.id for run in runs}, closed)
    for row in rows:
        after = columns_of(Occurrence, row.id)
        assert (after["state"], after["finished_at"], after["finalized_at"]) == (S.COMPLETED, LATER, LATER)
        assert after["report"] == {"n": 1}


def test_an_empty_list_sends_no_statement(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        assert transitions.skip([], reason=Reason.OPERATOR, now=NOW) == 0
        assert transitions.recover([]) == 0
        assert transitions.fire([], now=NOW) == 0
        assert transitions.close([], now=NOW) == {}
        assert transitions.claim([], take()) == []
        assert transitions.end([], now=NOW) == Ended(set(), {})
        assert transitions.step_due([]) == []
        assert transitions.lock_occurrences([]) == []
        assert transitions.read_runs([]) == []
        assert transitions.cancel([], reason=Reason.OPERATOR, now=NOW) == 0
        assert transitions.end_attempts([], AttemptState.LOST, now=NOW) == 0


def test_the_guards_come_from_the_table() -> None:
    assert set(occurrence_sources(S.CANCELED)) == {S.PENDING, S.QUEUED, S.DISPATCHED, S.RUNNING}

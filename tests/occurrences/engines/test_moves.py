"""The statements of each engine move rows along the tables of moves only, whatever state the rows are in."""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count, pairwise, product
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction

from punctual.jobs.ids import attempt_id
from punctual.jobs.models import Job, Task
from punctual.occurrences.engines import portable, postgresql
from punctual.occurrences.engines.contract import Closing, Engine, RunEnd, Take
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import (
    ATTEMPT_FINAL,
    OCCURRENCE_ACTIVE,
    OCCURRENCE_FINAL,
    OCCURRENCE_MOVES,
    OCCURRENCE_NOT_RUN,
    RUN_HELD,
    RUN_MOVES,
    AttemptState,
    OccurrenceState,
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
    saved,
)

pytestmark = [pytest.mark.django_db, pytest.mark.req("OCC-3", "TSK-1")]

S, R = OccurrenceState, RunState
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)
# Several moves in one statement.
PATHS = [
    (R.SCHEDULED, R.CLAIMED, R.RUNNING),
    (R.RUNNING, R.FAILED, R.DLQ),
    (R.CLAIMED, R.RUNNING, R.FAILED, R.DLQ),
    *((R.CLAIMED, R.RUNNING, target) for target in RUN_MOVES[R.RUNNING]),
]
Pair = tuple[OccurrenceState, RunState]
Rows = Mapping[Pair, TaskRun]

engines = pytest.mark.parametrize(
    "engine",
    [
        pytest.param(portable, id="portable"),
        pytest.param(postgresql, id="postgresql", marks=pytest.mark.postgres),
    ],
)
# PostgreSQL has one statement for a single row, and another one for several.
sizes = pytest.mark.parametrize("together", [False, True], ids=["one by one", "together"])


@pytest.fixture
def task() -> Task:
    return saved(a_task(saved(a_job("job", NOW))))


def runs_in_every_state(task: Task, states: Iterable[RunState] = R) -> Rows:
    """A run in each of the states, in an occurrence in each state."""
    instants = (NOW + timedelta(microseconds=number) for number in count())
    return {
        (owner, state): saved(a_run(_occurrence(task.job, next(instants), owner), task, state))
        for owner, state in product(S, states)
    }


def _occurrence(job: Job, at: datetime, state: OccurrenceState) -> Occurrence:
    return saved(an_occurrence(job, at, state, exclusive=False))


def states_now(rows: Rows) -> dict[Pair, Pair]:
    """The states of occurrence and run, by the states that they had."""
    columns = TaskRun.objects.values_list("id", "occurrence__state", "state")
    states = {id_: (S(owner), R(state)) for id_, owner, state in columns}
    return {pair: states[run.id] for pair, run in rows.items()}


def assert_along_the_tables(rows: Rows) -> None:
    for (owner, run), (new_owner, new_run) in states_now(rows).items():
        assert new_owner == owner or new_owner in OCCURRENCE_MOVES[owner], (owner, new_owner)
        assert new_run == run or new_run in reached(run), (run, new_run)


def reached(source: RunState) -> set[RunState]:
    """The states that one statement may move a run to: each step of the way is in the table."""
    paths = [path for path in PATHS if path[0] == source]
    assert all(after in RUN_MOVES[before] for path in paths for before, after in pairwise(path))
    return {*RUN_MOVES.get(source, ()), *(path[-1] for path in paths)}


def in_groups(items: Collection[Any], *, together: bool) -> Iterable[list[Any]]:
    return [list(items)] if together else [[item] for item in items]


def call_unless_refused(call: Callable[[], object]) -> None:
    """The database refuses rows that cannot be, such as a run that is claimed and has no token."""
    try:
        with transaction.atomic():
            call()
    except IntegrityError:
        return


@engines
@pytest.mark.parametrize("begin", [False, True], ids=["held", "begun"])
@sizes
def test_a_claim_takes_scheduled_runs_of_active_occurrences_only(
    engine: Engine, task: Task, *, together: bool, begin: bool
) -> None:
    rows = runs_in_every_state(task)
    for ids in in_groups([run.id for run in rows.values()], together=together):
        attempts = (attempt_id(ids[0], 0),) if begin and not together else ()
        engine.claim(ids, Take(uuid4(), "w", LATER, LATER + LEASE, attempts))
    claimed = R.RUNNING if begin and not together else R.CLAIMED
    expected = {pair: pair for pair in rows}
    expected |= {(owner, R.SCHEDULED): (S.RUNNING, claimed) for owner in OCCURRENCE_ACTIVE}
    assert states_now(rows) == expected
    assert_along_the_tables(rows)
    assert Attempt.objects.count() == (2 if claimed is R.RUNNING else 0)


@engines
@pytest.mark.parametrize("target", R)
@sizes
def test_an_end_moves_held_runs_of_active_occurrences_only(
    engine: Engine, task: Task, target: RunState, *, together: bool
) -> None:
    rows = runs_in_every_state(task)
    ends = [a_run_end(run, target) for run in rows.values()]
    for group in in_groups(ends, together=together):
        call_unless_refused(partial(engine.end, group, now=LATER))
    expected = {pair: pair for pair in rows}
    if target not in RUN_HELD:
        expected |= {pair: (pair[0], target) for pair in product(OCCURRENCE_ACTIVE, RUN_HELD)}
    assert states_now(rows) == expected
    assert_along_the_tables(rows)


# A run's end closes its occurrence with what `next_step` says, which is never skipped or missed.
@engines
@pytest.mark.parametrize("outcome", [state for state in S if state not in OCCURRENCE_NOT_RUN])
@sizes
def test_an_end_closes_active_occurrences_only(
    engine: Engine, task: Task, outcome: OccurrenceState, *, together: bool
) -> None:
    rows = runs_in_every_state(task, states=RUN_HELD)
    ends = [a_run_end(run, outcome=outcome, report="{}") for run in rows.values()]
    for group in in_groups(ends, together=together):
        call_unless_refused(partial(engine.end, group, now=LATER))
    expected = {pair: pair for pair in rows}
    if outcome in OCCURRENCE_FINAL:
        expected |= dict.fromkeys(product(OCCURRENCE_ACTIVE, RUN_HELD), (outcome, R.SUCCESS))
    assert states_now(rows) == expected
    assert_along_the_tables(rows)


@engines
@pytest.mark.parametrize("outcome", S)
@sizes
def test_a_closing_moves_occurrences_along_their_table_only(
    engine: Engine, task: Task, outcome: OccurrenceState, *, together: bool
) -> None:
    rows = runs_in_every_state(task, states=[R.SUCCESS])
    closings = [Closing(run.occurrence_id, outcome, "", True, "{}") for run in rows.values()]  # noqa: FBT003
    for group in in_groups(closings, together=together):
        call_unless_refused(partial(engine.close, group, states=occurrence_sources(outcome), now=LATER))
    expected = {pair: pair for pair in rows}
    if outcome in OCCURRENCE_FINAL:
        expected |= {(owner, R.SUCCESS): (outcome, R.SUCCESS) for owner in occurrence_sources(outcome)}
    assert states_now(rows) == expected
    assert_along_the_tables(rows)


@engines
@pytest.mark.parametrize("target", AttemptState)
@pytest.mark.parametrize("recorded", [False, True], ids=["not recorded", "recorded"])
@sizes
def test_an_attempt_that_has_ended_stays_as_it_is(
    engine: Engine, task: Task, target: AttemptState, *, recorded: bool, together: bool
) -> None:
    """`recorded` is what the worker knows: the supervisor may have inserted the row meanwhile."""
    ends: list[RunEnd] = []
    attempts = {}
    for number, state in enumerate(AttemptState):
        owner = _occurrence(task.job, NOW + timedelta(microseconds=number), S.RUNNING)
        run = saved(a_run(owner, task, R.RUNNING))
        attempts[state] = saved(an_attempt(run, state))
        ends.append(a_run_end(run, attempt_state=target, recorded=recorded))
    for group in in_groups(ends, together=together):
        call_unless_refused(partial(engine.end, group, now=LATER))
    for state, attempt in attempts.items():
        attempt.refresh_from_db()
        moved = state is AttemptState.RUNNING and target in ATTEMPT_FINAL
        assert attempt.state == (target if moved else state)

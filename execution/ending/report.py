"""Write the results of attempts, and take the next step of their occurrences.

One statement ends the runs of a report and their attempts, whatever the outcomes, and closes the occurrences
that have no other run. A run with neighbours ends first and looks afterwards whether a step is due: most are
not the last. Only a final failure locks its occurrence beforehand, because it cancels its neighbours.

A result whose token is no longer the run's changes nothing: the lease expired, or the run was canceled, and
what happened since stands.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from django.db import OperationalError, connection, transaction

from punctual.execution.ending.attempt_report import Begun, Report, error_line
from punctual.execution.ending.settle import (
    FailedAttempt,
    Settled,
    admit_after,
    combine,
    read_attempts,
    settle,
)
from punctual.execution.ending.steps import run_end
from punctual.jobs.database_errors import is_lock_conflict
from punctual.jobs.events import Event, emit, emit_failure
from punctual.jobs.ids import format_id
from punctual.occurrences import transitions
from punctual.occurrences.engines.contract import OccurrenceFacts, RunEnd, Wait
from punctual.occurrences.models import Attempt, Occurrence
from punctual.occurrences.states import AttemptState, RunState


class FencedError(Exception):
    """The claim was lost: the effects of a transactional task must be rolled back."""


@dataclass(frozen=True)
class EndedRuns:
    """What was written, and what is left to do after the commit."""

    settled: Settled
    open: Collection[UUID]  # occurrences whose next step may be due
    awaited: Sequence[OccurrenceFacts]  # closed or resting, and others may wait for their slots
    unrecorded: Sequence[Begun]  # attempts of late results


def report(reports: Sequence[Report], *, now: datetime) -> Settled:
    try:
        return take_next_steps(end_runs(reports, now=now), now=now)
    except OperationalError as error:
        if len(reports) == 1 or connection.in_atomic_block or not is_lock_conflict(error):
            raise
    # Another session holds a row of one of them: the others do not wait for it.
    settled, left = report_free(reports, now=now)
    for item in left:
        settled = combine(settled, report([item], now=now))
    return settled


def report_free(reports: Sequence[Report], *, now: datetime) -> tuple[Settled, Sequence[Report]]:
    """Write the results of which no other session holds a row; return those that are left as well.

    For a supervisor, too, which reports for a process that may report the same runs at this moment: if both
    shared the locks of the occurrences, they could deadlock on the runs, or when one closes them.
    """
    with transaction.atomic():
        free = {row.id for row in transitions.lock_free_occurrences({item.occurrence_id for item in reports})}
        # Without an active occurrence nothing is written, and nothing is waited for.
        active = Occurrence.objects.active().filter(id__in={item.occurrence_id for item in reports})
        held = set(active.values_list("id", flat=True)) - free
        writable = [item for item in reports if item.occurrence_id not in held]
        settled = report(writable, now=now) if writable else Settled()
    return settled, [item for item in reports if item.occurrence_id in held]


def end_runs(reports: Sequence[Report], *, now: datetime, strict: bool = False) -> EndedRuns:
    """Write results. `strict` raises FencedError instead of ignoring a late result."""
    # The report of an occurrence lists all attempts of its run.
    retried = [item.begun.run for item in reports if item.alone and item.begun.number]
    earlier = read_attempts(retried) if retried else {}
    ends = [
        run_end(item, now=now, earlier=earlier.get(item.begun.run, [])[: item.begun.number])
        for item in reports
    ]
    failed = {end.occurrence for end in ends if end.state is RunState.DLQ and end.outcome is None}
    with transaction.atomic() if failed else nullcontext():
        if failed:
            # All of them, in one order: locking the others after the failed ones could deadlock.
            wait = Wait.BRIEFLY if len(ends) > 1 else Wait.FOREVER
            transitions.lock_occurrences({end.occurrence for end in ends}, wait=wait)
        ended = transitions.end(ends, now=now)
        settled = settle(failed, now=now) if failed else Settled()
    late = [item for item in reports if item.begun.run not in ended.runs]
    if late and strict:
        raise FencedError
    written = [(item, end) for item, end in zip(reports, ends, strict=True) if end.run in ended.runs]
    closed = [(item.alone.occurrence, end) for item, end in written if item.alone and end.outcome]
    _emit_events(written, closed, fenced=len(late))
    own = Settled(
        released=tuple(end.run for _, end in written if end.state is RunState.SCHEDULED),
        finished=tuple(row.id for row, _ in closed),
        fenced=len(late),
        with_hooks=tuple(row.id for row, end in closed if not end.finalized),
        failed=tuple(_failed_attempt(item, end) for item, end in written if item.result.error_type),
    )
    # Also those of late results: this may be the second try of a report whose connection broke.
    with_neighbours = {item.occurrence_id for item in reports if item.alone is None}
    sent_again = {end.occurrence for _, end in written if end.state is RunState.SCHEDULED}
    awaited = {id_ for id_, waiting in (*ended.closed.items(), *ended.resting.items()) if waiting}
    return EndedRuns(
        settled=combine(own, settled) if failed else own,
        open=with_neighbours - failed - sent_again,
        awaited=[
            item.alone.occurrence for item, _ in written if item.alone and item.occurrence_id in awaited
        ],
        unrecorded=[item.begun for item in late if not item.recorded],
    )


def take_next_steps(ended: EndedRuns, *, now: datetime) -> Settled:
    """Call after the commit of the end: of two runs that end last, the later one sees the other."""
    settled = ended.settled
    if ended.open and (due := transitions.step_due(ended.open)):
        settled = combine(settled, settle(due, now=now))
    if ended.awaited:
        released = admit_after(ended.awaited, now=now)
        settled = replace(settled, released=(*settled.released, *released))
    if ended.unrecorded:
        with transaction.atomic():
            record_attempts(ended.unrecorded, now=now)
    return settled


def record_attempts(items: Sequence[Begun], *, now: datetime) -> None:
    """Insert the attempts of runs that have begun; the caller has locked their occurrences.

    A run that another worker has claimed meanwhile is skipped. A run that was canceled after the claim has
    begun nevertheless, and gets a canceled attempt.
    """
    for token in {item.token for item in items}:
        begun = {item.run: item for item in items if item.token == token}
        times = {id_: item.started_at for id_, item in begun.items()}
        running = transitions.begin(times, token=token)
        canceled = transitions.count_canceled({id_: item.number for id_, item in begun.items()})
        Attempt.objects.bulk_create(
            [
                *(_attempt(begun[id_]) for id_ in running),
                *(_attempt(begun[id_], AttemptState.CANCELED, now) for id_ in canceled),
            ]
        )


def _attempt(
    item: Begun, state: AttemptState = AttemptState.RUNNING, finished_at: datetime | None = None
) -> Attempt:
    return Attempt(
        id=item.attempt,
        run_id=item.run,
        number=item.number,
        state=state,
        worker=item.worker,
        started_at=item.started_at,
        finished_at=finished_at,
    )


def _emit_events(
    written: Iterable[tuple[Report, RunEnd]], closed: Iterable[tuple[OccurrenceFacts, RunEnd]], *, fenced: int
) -> None:
    for item, end in written:
        if item.result.error_type:
            _emit_failure(item, end)
    for row, end in closed:
        emit(Event.OCCURRENCE_FINISHED, job=row.job, occurrence=format_id("occ", row.id), outcome=end.outcome)
    if fenced:
        emit(Event.ATTEMPT_FENCED, count=fenced)


def _emit_failure(item: Report, end: RunEnd) -> None:
    result = item.result
    facts = {
        "task": item.task,
        "run": format_id("run", item.begun.run),
        "attempt": item.begun.number,
        "ending": result.ending,
        "error": error_line(result),
    }
    if end.final:
        emit_failure(Event.ATTEMPT_FAILED, result.exception, result.traceback, **facts)
    else:
        emit(Event.ATTEMPT_FAILED, **facts)


def _failed_attempt(item: Report, end: RunEnd) -> FailedAttempt:
    result = item.result
    retry_at = None if end.final else end.available_at
    names = item.begun.run, item.begun.attempt, item.job, item.task
    return FailedAttempt(*names, retry_at, error_line(result), result.traceback, result.exception)

"""The only writer of a state column. Every move is one guarded UPDATE; the row count is the answer.

A guard that finds nothing is no error: somebody else was first, and what they did stands.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Case, F, Model, Value, When

from occurrences import swift, swift_endings
from occurrences.models import Attempt, Cause, Occurrence, Resolution, TaskRun, TaskRunQuerySet
from occurrences.states import (
    RUN_HELD,
    RUN_OPEN,
    AttemptState,
    OccurrenceState,
    RunState,
    occurrence_sources,
)

Ids = Collection[UUID]
Texts = Ids | Collection[str]  # of batches, whose ids nobody makes UUIDs of
COMPRESSED = "compressed"
RELEASED_CLAIM: dict[str, Any] = {"claim_token": None, "lease_until": None}


# On PostgreSQL a run that nothing unusual happens to takes these, each several moves in one statement.
swift_usable, swift_claim_one, swift_claim_many = swift.usable, swift.claim_one, swift.claim_many
swift_complete_one, swift_complete_many = swift_endings.complete_one, swift_endings.complete_many
swift_end_one, swift_end_many, swift_close = (
    swift_endings.end_one,
    swift_endings.end_many,
    swift_endings.close,
)

# -- occurrences ---------------------------------------------------------------------------------


def skip(ids: Texts, *, reason: str, now: datetime) -> int:
    return _end(ids, OccurrenceState.SKIPPED, now=now, reason=reason, finalized_at=now)


def miss(ids: Texts, *, reason: str, now: datetime) -> int:
    return _end(ids, OccurrenceState.MISSED, now=now, reason=reason, finalized_at=now)


def queue(ids: Texts, *, reason: str) -> int:
    return _move(ids, OccurrenceState.QUEUED, reason=reason)


def recover(ids: Ids) -> int:
    """Late ones that shall run after all: no longer late, marked as recovery. The state stays."""
    if not ids:
        return 0
    rows = Occurrence.objects.filter(id__in=ids, state=OccurrenceState.PENDING)
    return rows.update(cause=Cause.RECOVERY, late_at=None)


def compress(covers: Mapping[UUID, Mapping[str, Any]], ranges: Ids) -> int:
    """One late occurrence of each job runs for all that were missed; `ranges` are part of them."""
    Occurrence.objects.filter(id__in=ranges).update(reason=COMPRESSED)
    rows = Occurrence.objects.filter(id__in=covers.keys(), state=OccurrenceState.PENDING)
    told = _per_row(Occurrence, "covers", covers)
    return rows.update(cause=Cause.RECOVERY, late_at=None, covers=told)


def move(id_: UUID, *, run_at: datetime) -> bool:
    """Another start time for a pending one, never late again: somebody chose it. The state stays."""
    rows = Occurrence.objects.filter(id=id_, state=OccurrenceState.PENDING)
    return rows.update(run_at=run_at, late_at=None) == 1


def fire(ids: Texts, *, now: datetime) -> int:
    return _move(ids, OccurrenceState.DISPATCHED, fired_at=now, reason="")


def start(ids: Ids, *, now: datetime) -> int:
    deadline = now + F("execution_timeout")
    return _move(ids, OccurrenceState.RUNNING, started_at=now, deadline_at=deadline)


def finish(
    states: Mapping[UUID, OccurrenceState],
    *,
    reports: Mapping[UUID, Mapping[str, Any]],
    finalized: Ids,
    now: datetime,
    reason: str = "",
) -> int:
    """Close occurrences, each with its outcome and report; `finalized` owe no hook."""
    changed = 0
    for outcome in sorted(set(states.values())):
        ids = [id_ for id_, state in states.items() if state == outcome]
        changed += _end(
            ids,
            outcome,
            now=now,
            reason=reason,
            report=_per_row(Occurrence, "report", {id_: reports[id_] for id_ in ids}),
            finalized_at=_per_row(
                Occurrence, "finalized_at", {id_: now if id_ in finalized else None for id_ in ids}
            ),
        )
    return changed


def ask(ids: Ids, *, now: datetime) -> int:
    """Note that a worker was asked to settle them. The state stays."""
    return Occurrence.objects.filter(id__in=ids).update(asked_at=now)


def finalize(ids: Ids, *, now: datetime) -> int:
    return Occurrence.objects.unfinalized().filter(id__in=ids).update(finalized_at=now)


def _move(ids: Texts, target: OccurrenceState, **columns: Any) -> int:
    if not ids:
        return 0
    rows = Occurrence.objects.filter(id__any=ids, state__in=occurrence_sources(target))
    return rows.update(state=target, **columns)


def _end(ids: Texts, target: OccurrenceState, *, now: datetime, **columns: Any) -> int:
    return _move(ids, target, finished_at=now, **columns)


# -- task runs and their attempts ----------------------------------------------------------------


def claim(ids: Ids, *, token: UUID, worker: str, now: datetime, lease: timedelta) -> int:
    """scheduled → claimed → running in one statement: a run claimed alone starts at once."""
    rows = TaskRun.objects.filter(id__in=ids, state=RunState.SCHEDULED, available_at__lte=now)
    return rows.update(
        state=RunState.RUNNING,
        claim_token=token,
        claimed_by=worker,
        lease_until=now + lease,
        heartbeat_at=now,
        started_at=now,
        attempts_made=F("attempts_made") + 1,
    )


def hold(ids: Ids, *, token: UUID, worker: str, now: datetime, lease: timedelta) -> int:
    """scheduled → claimed: a worker's, but not begun."""
    rows = TaskRun.objects.filter(id__in=ids, state=RunState.SCHEDULED, available_at__lte=now)
    return rows.update(
        state=RunState.CLAIMED,
        claim_token=token,
        claimed_by=worker,
        lease_until=now + lease,
        heartbeat_at=now,
    )


def begin(times: Mapping[UUID, datetime], *, token: UUID) -> list[UUID]:
    """claimed → running since then; their attempts follow in the same transaction. Those still held."""
    rows = TaskRun.objects.filter(id__in=times, state=RunState.CLAIMED, claim_token=token)
    held = list(rows.order_by("id").select_for_update(no_key=True).values_list("id", flat=True))
    if held:
        since = _per_row(TaskRun, "started_at", {id_: times[id_] for id_ in held})
        rows = TaskRun.objects.filter(id__in=held, state=RunState.CLAIMED)
        rows.update(state=RunState.RUNNING, started_at=since, attempts_made=F("attempts_made") + 1)
    return held


def count_canceled(numbers: Mapping[UUID, int]) -> list[UUID]:
    """Runs that were canceled before an attempt they had begun was a row: it counts. The state stays."""
    rows = TaskRun.objects.filter(id__in=numbers, state=RunState.CANCELED).order_by("id")
    found = rows.select_for_update(no_key=True).values_list("id", "attempts_made")
    begun = [id_ for id_, made in found if made == numbers[id_]]
    if begun:
        TaskRun.objects.filter(id__in=begun).update(attempts_made=F("attempts_made") + 1)
    return begun


def hand_back(ids: Ids, *, token: UUID, now: datetime) -> int:
    """claimed → scheduled, unsent: its worker gives it up before it began, at no attempt's cost."""
    rows = TaskRun.objects.filter(id__in=ids, state=RunState.CLAIMED, claim_token=token)
    return rows.update(state=RunState.SCHEDULED, available_at=now, dispatched_at=None, **RELEASED_CLAIM)


def renew(id_: UUID, *, token: UUID, now: datetime, lease: timedelta) -> bool:
    """Extend a lease; False tells the worker that the run is no longer its own."""
    rows = TaskRun.objects.filter(id=id_, claim_token=token, state__in=RUN_HELD)
    return rows.update(lease_until=now + lease, heartbeat_at=now) == 1


def renew_all(tokens: Mapping[UUID, UUID], *, now: datetime, lease: timedelta) -> set[UUID]:
    """Extend the leases of one worker's runs; those it got. A row that somebody else is just writing is
    left out instead of waited for: whoever renews must not stand in a queue, and the lease is long."""
    with transaction.atomic():
        rows = TaskRun.objects.filter(id__in=tokens, state__in=RUN_HELD)
        free = rows.order_by("id").select_for_update(skip_locked=True, no_key=True)
        mine = {id_ for id_, token in free.values_list("id", "claim_token") if token == tokens[id_]}
        TaskRun.objects.filter(id__in=mine).update(lease_until=now + lease, heartbeat_at=now)
    return mine


def note_progress(said: Mapping[UUID, Any], *, tokens: Mapping[UUID, UUID]) -> int:
    """What functions say about how far they are, as long as their runs are theirs. The state stays."""
    rows = TaskRun.objects.filter(id__in=said, claim_token__in=set(tokens.values()), state__in=RUN_HELD)
    return rows.update(progress=_per_row(TaskRun, "progress", said))


def release(ids: Ids, *, now: datetime) -> int:
    """Let waiting steps go ahead: a sequence moves on to them."""
    rows = TaskRun.objects.filter(id__in=ids, state=RunState.SCHEDULED, available_at=None)
    return rows.update(available_at=now)


def confirm_dispatch(ids: Texts, *, now: datetime) -> int:
    return TaskRun.objects.filter(id__any=ids, state=RunState.SCHEDULED).update(dispatched_at=now)


def succeed(ids: Ids, *, now: datetime) -> int:
    return _running(ids).update(state=RunState.SUCCESS, finished_at=now, error="", **RELEASED_CLAIM)


def retry(times: Mapping[UUID, datetime], *, errors: Mapping[UUID, str]) -> int:
    """running → retry: the wait is a row with a time, not a message with a delay."""
    if not times:
        return 0
    return _running(times.keys()).update(
        state=RunState.RETRY,
        available_at=_per_row(TaskRun, "available_at", times),
        dispatched_at=None,
        error=_per_row(TaskRun, "error", errors),
        **RELEASED_CLAIM,
    )


def snooze(times: Mapping[UUID, datetime]) -> int:
    """running → retry at the task's own wish: the attempt is kept but does not count."""
    if not times:
        return 0
    return _running(times.keys()).update(
        state=RunState.RETRY,
        available_at=_per_row(TaskRun, "available_at", times),
        dispatched_at=None,
        snoozes=F("snoozes") + 1,
        **RELEASED_CLAIM,
    )


def restart(ids: Ids, *, now: datetime) -> int:
    """running → scheduled, to be sent at once: its worker was told to stop. The attempt does not count."""
    if not ids:
        return 0
    return _running(ids).update(
        state=RunState.SCHEDULED,
        available_at=now,
        dispatched_at=None,
        snoozes=F("snoozes") + 1,
        **RELEASED_CLAIM,
    )


def park(
    errors: Mapping[UUID, str], *, fingerprints: Mapping[UUID, str] | None = None, reason: str, now: datetime
) -> int:
    """running → failed → dlq in one statement: nothing rests in `failed`."""
    if not errors:
        return 0
    return _running(errors.keys()).update(
        state=RunState.DLQ,
        finished_at=now,
        reason=reason,
        error=_per_row(TaskRun, "error", errors),
        fingerprint=_per_row(TaskRun, "fingerprint", fingerprints or {}),
        **RELEASED_CLAIM,
    )


def resolve(ids: Ids, resolution: Resolution, *, now: datetime) -> int:
    """Somebody has dealt with these dead letters. The state stays: they did die."""
    return TaskRun.objects.dead().filter(id__in=ids).update(resolved_at=now, resolution=resolution)


def cancel(ids: Ids, *, reason: str, now: datetime) -> int:
    """From any open state; whoever was running finds its token gone."""
    if not ids:
        return 0
    rows = TaskRun.objects.filter(id__in=ids, state__in=RUN_OPEN)
    changed = rows.update(state=RunState.CANCELED, finished_at=now, reason=reason, **RELEASED_CLAIM)
    # After the runs: that UPDATE waits for a claim under way, whose attempt can be seen only then.
    end_attempts(ids, AttemptState.CANCELED, now=now)
    return changed


def reschedule(ids: Ids, *, now: datetime) -> int:
    """retry → scheduled once its time has come."""
    rows = TaskRun.objects.filter(id__in=ids, state=RunState.RETRY, available_at__lte=now)
    return rows.update(state=RunState.SCHEDULED, dispatched_at=None)


def fail(times: Mapping[UUID, datetime], *, errors: Mapping[UUID, str]) -> int:
    """running → failed, to be taken up again by its own scheduler from that time on: no beat and no
    worker touches a run that rests in `failed`."""
    if not times:
        return 0
    return _running(times.keys()).update(
        state=RunState.FAILED,
        available_at=_per_row(TaskRun, "available_at", times),
        error=_per_row(TaskRun, "error", errors),
        **RELEASED_CLAIM,
    )


def reopen(ids: Ids, *, now: datetime) -> int:
    """failed → scheduled; for a claim that follows in the same transaction."""
    rows = TaskRun.objects.filter(id__in=ids, state=RunState.FAILED)
    return rows.update(state=RunState.SCHEDULED, available_at=now)


def expire(ids: Ids, *, now: datetime) -> int:
    """claimed or running → scheduled once the lease has run out; for a claim in the same transaction."""
    rows = TaskRun.objects.expired(now).filter(id__in=ids)
    return rows.update(state=RunState.SCHEDULED, available_at=now, **RELEASED_CLAIM)


def end_attempts(
    runs: Ids,
    state: AttemptState,
    *,
    now: datetime,
    errors: Mapping[UUID, Mapping[str, str]] | None = None,
    logs: Mapping[UUID, str] | None = None,
) -> int:
    """Close the running attempt of each run; `errors` maps run → error_type, error, traceback."""
    if not runs:
        return 0
    columns: dict[str, Any] = {}
    for column in ("error_type", "error", "traceback") if errors else ():
        values = {run: error[column] for run, error in (errors or {}).items()}
        columns[column] = _per_row(Attempt, column, values, key="run_id")
    if logs:
        columns["log"] = _per_row(Attempt, "log", logs, key="run_id")
    rows = Attempt.objects.filter(run__in=runs, state=AttemptState.RUNNING)
    return rows.update(state=state, finished_at=now, **columns)


def mirror(run: TaskRun, state: RunState, *, now: datetime | None = None, reason: str = "") -> None:
    """A run in memory as the UPDATE above left its row, so that a roll-up need not read it again."""
    run.state, run.finished_at = state, now
    run.reason = reason or run.reason


def _running(ids: Ids) -> TaskRunQuerySet:
    return TaskRun.objects.filter(id__in=ids, state=RunState.RUNNING)


def _per_row(model: type[Model], column: str, values: Mapping[UUID, Any], key: str = "id") -> Case | F:
    """A column whose new value differs from row to row, still in one UPDATE."""
    if not values:
        return F(column)
    field: Any = model._meta.get_field(column)
    whens = [When(**{key: id_}, then=Value(value, output_field=field)) for id_, value in values.items()]
    return Case(*whens, default=F(column), output_field=field)

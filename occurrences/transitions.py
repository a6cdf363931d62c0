"""The only writer of a state column. Every transition is one guarded UPDATE; the row count is the answer.

A guard that matches nothing is not an error: another process was first, and its transition stands.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Case, F, Model, Value, When

from punctual.occurrences import swift, swift_endings
from punctual.occurrences.models import Attempt, Cause, Occurrence, Resolution, TaskRun, TaskRunQuerySet
from punctual.occurrences.states import (
    RUN_HELD,
    RUN_OPEN,
    AttemptState,
    OccurrenceState,
    Reason,
    RunState,
    occurrence_sources,
)

Ids = Collection[UUID]
IdsOrTexts = Ids | Collection[str]  # a beat passes texts: it never builds UUIDs from them
RELEASED_CLAIM: dict[str, Any] = {"claim_token": None, "lease_until": None}


# On PostgreSQL a plain success takes these, each several moves in one statement.
swift_usable, swift_claim_one, swift_claim_many = swift.usable, swift.claim_one, swift.claim_many
swift_complete_one, swift_complete_many = swift_endings.complete_one, swift_endings.complete_many
swift_end_one, swift_end_many, swift_close = (
    swift_endings.end_one,
    swift_endings.end_many,
    swift_endings.close,
)

# -- occurrences ---------------------------------------------------------------------------------


def skip(ids: IdsOrTexts, *, reason: Reason, now: datetime) -> int:
    """Skip pending or queued occurrences."""
    return _end(ids, OccurrenceState.SKIPPED, now=now, reason=reason, finalized_at=now)


def miss(ids: IdsOrTexts, *, reason: Reason, now: datetime) -> int:
    """Record pending or queued occurrences as missed."""
    return _end(ids, OccurrenceState.MISSED, now=now, reason=reason, finalized_at=now)


def queue(ids: IdsOrTexts, *, reason: Reason) -> int:
    """Queue pending occurrences that are due but wait for a slot or a predecessor."""
    return _move(ids, OccurrenceState.QUEUED, reason=reason)


def recover(ids: Ids) -> int:
    """Mark late occurrences as recovery, no longer late, so that firing takes them. The state stays."""
    if not ids:
        return 0
    rows = Occurrence.objects.filter(id__in=ids, state=OccurrenceState.PENDING)
    return rows.update(cause=Cause.RECOVERY, late_at=None)


def compress(covers: Mapping[UUID, Mapping[str, Any]], ranges: Ids) -> int:
    """Let one late occurrence of each job run for all that were missed; `ranges` are among these."""
    Occurrence.objects.filter(id__in=ranges).update(reason=Reason.COMPRESSED)
    rows = Occurrence.objects.filter(id__in=covers.keys(), state=OccurrenceState.PENDING)
    values = _per_row(Occurrence, "covers", covers)
    return rows.update(cause=Cause.RECOVERY, late_at=None, covers=values)


def move(id_: UUID, *, run_at: datetime) -> bool:
    """Set the start time of a pending occurrence, which never counts as late again. The state stays."""
    rows = Occurrence.objects.filter(id=id_, state=OccurrenceState.PENDING)
    return rows.update(run_at=run_at, late_at=None) == 1


def fire(ids: IdsOrTexts, *, now: datetime) -> int:
    """Mark pending or queued occurrences as dispatched: their runs exist."""
    return _move(ids, OccurrenceState.DISPATCHED, fired_at=now, reason="")


def start(ids: Ids, *, now: datetime) -> int:
    """Start dispatched occurrences; the deadline counts from now."""
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
    """End occurrences, each with its outcome and report; `finalized` have no completion hook to call."""
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


def note_settle_request(ids: Ids, *, now: datetime) -> int:
    """Record that a worker was requested to settle them. The state stays."""
    return Occurrence.objects.filter(id__in=ids).update(settle_requested_at=now)


def finalize(ids: Ids, *, now: datetime) -> int:
    """Record that the completion hooks were called. The state stays."""
    return Occurrence.objects.unfinalized().filter(id__in=ids).update(finalized_at=now)


def _move(ids: IdsOrTexts, target: OccurrenceState, **columns: Any) -> int:
    if not ids:
        return 0
    rows = Occurrence.objects.filter(id__any=ids, state__in=occurrence_sources(target))
    return rows.update(state=target, **columns)


def _end(ids: IdsOrTexts, target: OccurrenceState, *, now: datetime, **columns: Any) -> int:
    return _move(ids, target, finished_at=now, **columns)


# -- task runs and their attempts ----------------------------------------------------------------


def claim(ids: Ids, *, token: UUID, worker: str, now: datetime, lease: timedelta) -> int:
    """Claim and start scheduled runs in one statement: a run claimed alone starts at once."""
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
    """Claim scheduled runs for a worker that holds them in a bundle and has not started them."""
    rows = TaskRun.objects.filter(id__in=ids, state=RunState.SCHEDULED, available_at__lte=now)
    return rows.update(
        state=RunState.CLAIMED,
        claim_token=token,
        claimed_by=worker,
        lease_until=now + lease,
        heartbeat_at=now,
    )


def begin(times: Mapping[UUID, datetime], *, token: UUID) -> list[UUID]:
    """Mark claimed runs as started at these times; return those that the worker still holds.

    The caller inserts their attempts in the same transaction.
    """
    rows = TaskRun.objects.filter(id__in=times, state=RunState.CLAIMED, claim_token=token)
    ids = list(rows.order_by("id").select_for_update(no_key=True).values_list("id", flat=True))
    if ids:
        started_at = _per_row(TaskRun, "started_at", {id_: times[id_] for id_ in ids})
        rows = TaskRun.objects.filter(id__in=ids, state=RunState.CLAIMED)
        rows.update(state=RunState.RUNNING, started_at=started_at, attempts_made=F("attempts_made") + 1)
    return ids


def count_canceled(numbers: Mapping[UUID, int]) -> list[UUID]:
    """Count attempts of runs that were canceled before the attempt was a row. The state stays."""
    rows = TaskRun.objects.filter(id__in=numbers, state=RunState.CANCELED).order_by("id")
    locked = rows.select_for_update(no_key=True).values_list("id", "attempts_made")
    uncounted = [id_ for id_, attempts in locked if attempts == numbers[id_]]
    if uncounted:
        TaskRun.objects.filter(id__in=uncounted).update(attempts_made=F("attempts_made") + 1)
    return uncounted


def hand_back(ids: Ids, *, token: UUID, now: datetime) -> int:
    """Return claimed runs that have not started, to be sent again. No attempt is counted."""
    rows = TaskRun.objects.filter(id__in=ids, state=RunState.CLAIMED, claim_token=token)
    return rows.update(state=RunState.SCHEDULED, available_at=now, dispatched_at=None, **RELEASED_CLAIM)


def renew(id_: UUID, *, token: UUID, now: datetime, lease: timedelta) -> bool:
    """Extend a lease; False: the worker no longer holds the run."""
    rows = TaskRun.objects.filter(id=id_, claim_token=token, state__in=RUN_HELD)
    return rows.update(lease_until=now + lease, heartbeat_at=now) == 1


def renew_all(tokens: Mapping[UUID, UUID], *, now: datetime, lease: timedelta) -> set[UUID]:
    """Extend the leases of one worker's runs and return those that were extended.

    A row that another process has locked is left out: the thread that renews leases must not wait, and a
    lease outlasts several renewals.
    """
    with transaction.atomic():
        rows = TaskRun.objects.filter(id__in=tokens, state__in=RUN_HELD)
        locked = rows.order_by("id").select_for_update(skip_locked=True, no_key=True)
        ids = {id_ for id_, token in locked.values_list("id", "claim_token") if token == tokens[id_]}
        TaskRun.objects.filter(id__in=ids).update(lease_until=now + lease, heartbeat_at=now)
    return ids


def note_progress(progress: Mapping[UUID, Any], *, tokens: Mapping[UUID, UUID]) -> int:
    """Write what tasks reported with ctx.heartbeat(), while their workers hold the runs. The state stays."""
    holders = set(tokens.values())
    rows = TaskRun.objects.filter(id__in=progress, claim_token__in=holders, state__in=RUN_HELD)
    return rows.update(progress=_per_row(TaskRun, "progress", progress))


def release(ids: Ids, *, now: datetime) -> int:
    """Let runs start that waited for an earlier task of a sequence. The state stays."""
    rows = TaskRun.objects.filter(id__in=ids, state=RunState.SCHEDULED, available_at=None)
    return rows.update(available_at=now)


def confirm_dispatch(ids: IdsOrTexts, *, now: datetime) -> int:
    """Record that the broker accepted their messages. The state stays."""
    return TaskRun.objects.filter(id__any=ids, state=RunState.SCHEDULED).update(dispatched_at=now)


def succeed(ids: Ids, *, now: datetime) -> int:
    """End running runs as successes."""
    return _running(ids).update(state=RunState.SUCCESS, finished_at=now, error="", **RELEASED_CLAIM)


def retry(times: Mapping[UUID, datetime], *, errors: Mapping[UUID, str]) -> int:
    """Let running runs wait for a retry: the wait is a time in the row, not a message with an ETA."""
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
    """Let running runs wait because their tasks snoozed: the attempt is kept but does not count."""
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
    """Return running runs of a worker that stops, to be sent at once. The attempt does not count."""
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
    """Park running runs as dead letters: failed and dlq in one statement, so none stays in `failed`."""
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
    """Record that an operator replayed or purged these dead letters. The state stays."""
    return TaskRun.objects.dead().filter(id__in=ids).update(resolved_at=now, resolution=resolution)


def cancel(ids: Ids, *, reason: str, now: datetime) -> int:
    """Cancel open runs; a worker that runs one finds its claim token gone."""
    if not ids:
        return 0
    rows = TaskRun.objects.filter(id__in=ids, state__in=RUN_OPEN)
    changed = rows.update(state=RunState.CANCELED, finished_at=now, reason=reason, **RELEASED_CLAIM)
    # After the runs: that UPDATE waits for a claim in progress, whose attempt is visible only then.
    end_attempts(ids, AttemptState.CANCELED, now=now)
    return changed


def reschedule(ids: Ids, *, now: datetime) -> int:
    """Schedule runs whose retry has become due."""
    rows = TaskRun.objects.filter(id__in=ids, state=RunState.RETRY, available_at__lte=now)
    return rows.update(state=RunState.SCHEDULED, dispatched_at=None)


def fail(times: Mapping[UUID, datetime], *, errors: Mapping[UUID, str]) -> int:
    """Fail running runs until their polling scheduler retries them, not before these times.

    Beats and workers never touch a run in `failed`.
    """
    if not times:
        return 0
    return _running(times.keys()).update(
        state=RunState.FAILED,
        available_at=_per_row(TaskRun, "available_at", times),
        error=_per_row(TaskRun, "error", errors),
        **RELEASED_CLAIM,
    )


def reopen(ids: Ids, *, now: datetime) -> int:
    """Schedule failed runs, for a claim that follows in the same transaction."""
    rows = TaskRun.objects.filter(id__in=ids, state=RunState.FAILED)
    return rows.update(state=RunState.SCHEDULED, available_at=now)


def expire(ids: Ids, *, now: datetime) -> int:
    """Schedule held runs whose lease has expired, for a claim in the same transaction."""
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
    """End the running attempt of each run; `errors` maps a run to error_type, error and traceback."""
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
    """Set the state of a run in memory as the UPDATE above set the row, so that it need not be read again."""
    run.state, run.finished_at = state, now
    run.reason = reason or run.reason


def _running(ids: Ids) -> TaskRunQuerySet:
    return TaskRun.objects.filter(id__in=ids, state=RunState.RUNNING)


def _per_row(model: type[Model], column: str, values: Mapping[UUID, Any], key: str = "id") -> Case | F:
    """An expression that gives a column another value in each row, in one UPDATE."""
    if not values:
        return F(column)
    field: Any = model._meta.get_field(column)
    whens = [When(**{key: id_}, then=Value(value, output_field=field)) for id_, value in values.items()]
    return Case(*whens, default=F(column), output_field=field)

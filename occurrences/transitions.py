"""The only writer of a state column. Every transition is one guarded UPDATE; what it changed is the answer.

A guard that matches nothing is not an error: another process was first, and its transition stands. Claim,
ending and closing have the same steps on every database, and one engine for each kind (`engines`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Case, F, Model, QuerySet, Value, When

from punctual.occurrences.engines.contract import (
    ClaimedRun,
    Closing,
    Ended,
    OccurrenceFacts,
    RunEnd,
    RunFacts,
    Take,
    Wait,
)
from punctual.occurrences.engines.current import engine
from punctual.occurrences.models import Attempt, Cause, Occurrence, Resolution, TaskRun
from punctual.occurrences.states import (
    OCCURRENCE_ACTIVE,
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
    return _move(ids, OccurrenceState.DISPATCHED, fired_at=now, reason="", holds_slot=True)


def mark_ending(ids: Ids, outcome: OccurrenceState, *, reason: str, now: datetime) -> int:
    """Keep active occurrences until their clean-up is over, at most for another execution_timeout."""
    deadline = now + F("execution_timeout")
    return (
        Occurrence.objects.active()
        .filter(id__in=ids)
        .update(ending=outcome, reason=reason, deadline_at=deadline)
    )


def rest(ids: Ids) -> int:
    """Give the slots of active occurrences back that only wait; the caller holds their locks."""
    return Occurrence.objects.active().filter(id__in=ids).update(holds_slot=False)


def want_slot(ids: Ids, *, now: datetime) -> int:
    """Put active occurrences without a slot in line for one; the caller holds their locks."""
    rows = Occurrence.objects.active().filter(id__in=ids, holds_slot=False, slot_wanted_at=None)
    return rows.update(slot_wanted_at=now)


def take_slot(deadlines: Mapping[UUID, datetime | None]) -> int:
    """Let these go on with a slot and a later deadline: the wait for the slot does not count."""
    if not deadlines:
        return 0
    rows = Occurrence.objects.active().wanting_slots().filter(id__in=deadlines)
    deadline_at = _per_row(Occurrence, "deadline_at", deadlines)
    return rows.update(holds_slot=True, slot_wanted_at=None, deadline_at=deadline_at)


def start(ids: Ids, *, now: datetime) -> int:
    """Start dispatched occurrences; the deadline counts from now."""
    deadline = now + F("execution_timeout")
    return _move(ids, OccurrenceState.RUNNING, started_at=now, deadline_at=deadline)


def close(
    closings: Sequence[Closing],
    *,
    now: datetime,
    states: Iterable[OccurrenceState] = OCCURRENCE_ACTIVE,
) -> dict[UUID, bool]:
    """End locked occurrences; return those that were ended, and whether others may wait for their slots."""
    sources = set(states).intersection(*(occurrence_sources(item.outcome) for item in closings))
    return engine().close(closings, states=sources, now=now) if closings else {}


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


def claim(ids: Sequence[UUID], take: Take) -> list[ClaimedRun]:
    """Claim scheduled runs and start their occurrences; with attempts given, begin the run as well.

    Raises an error that is a lock conflict if another session holds a row for longer than two seconds.
    """
    return engine().claim(ids, take) if ids else []


def claim_free(ids: Sequence[UUID], take: Take) -> list[ClaimedRun]:
    """Claim those of the runs of which no other session holds a row."""
    with transaction.atomic():
        runs = _lock_free(TaskRun.objects.filter(id__in=ids))
        owners = dict(TaskRun.objects.filter(id__in=runs).values_list("id", "occurrence_id"))
        occurrences = _lock_free(Occurrence.objects.filter(id__in=owners.values()))
        return claim([id_ for id_ in ids if owners.get(id_) in occurrences], take)


def end(ends: Sequence[RunEnd], *, now: datetime) -> Ended:
    """End held runs, their attempts, and occurrences without another run. A wrong token changes nothing."""
    return engine().end(ends, now=now) if ends else Ended(set(), {})


def step_due(ids: Collection[UUID]) -> list[UUID]:
    """Those of the occurrences where no released run is open: the next step is due. Writes nothing."""
    return engine().step_due(ids) if ids else []


def lock_occurrences(
    ids: Collection[UUID],
    *,
    states: Iterable[OccurrenceState] = OCCURRENCE_ACTIVE,
    wait: Wait = Wait.FOREVER,
) -> list[OccurrenceFacts]:
    """Lock the occurrences that are in these states, in id order; their jobs are read and not locked."""
    return engine().lock_occurrences(ids, states, wait) if ids else []


def lock_free_occurrences(
    ids: Collection[UUID], *, states: Iterable[OccurrenceState] = OCCURRENCE_ACTIVE
) -> list[OccurrenceFacts]:
    """Lock occurrences with their open runs and running attempts; leave out those of which another session
    holds one of these rows."""
    facts = {row.id: row for row in lock_occurrences(ids, states=states, wait=Wait.NEVER)}
    open_runs = TaskRun.objects.filter(occurrence__in=facts, state__in=RUN_OPEN)
    runs = dict(open_runs.values_list("id", "occurrence_id"))
    running = Attempt.objects.filter(run__in=runs, state=AttemptState.RUNNING)
    attempts = {id_: runs[run] for id_, run in running.values_list("id", "run_id")}
    locked = _lock_free(TaskRun.objects.filter(id__in=runs))
    locked |= _lock_free(Attempt.objects.filter(id__in=attempts)) if attempts else set()
    held = {owner for id_, owner in (runs | attempts).items() if id_ not in locked}
    return [row for id_, row in facts.items() if id_ not in held]


def _lock_free(rows: QuerySet[Any]) -> set[UUID]:
    """Lock the rows that no other session holds; return their ids."""
    locked = rows.order_by("id").select_for_update(skip_locked=True, no_key=True)
    return set(locked.values_list("id", flat=True))


def read_runs(occurrences: Collection[UUID]) -> list[RunFacts]:
    """All runs of these occurrences, by occurrence and position."""
    return engine().read_runs(occurrences) if occurrences else []


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
    with transaction.atomic():
        # The thread that renews leases must not wait; a value that is not stored now is stored later.
        locked = _lock_free(rows)
        return rows.filter(id__in=locked).update(progress=_per_row(TaskRun, "progress", progress))


def release(ids: Ids, *, now: datetime) -> int:
    """Let runs start that waited for an earlier task of a sequence. The state stays."""
    rows = TaskRun.objects.filter(id__in=ids, state=RunState.SCHEDULED, available_at=None)
    return rows.update(available_at=now)


def park(ids: Ids, *, now: datetime) -> int:
    """Keep workers from claiming these runs until their occurrence has a slot. The state stays."""
    rows = TaskRun.objects.filter(id__in=ids, state__in=(RunState.SCHEDULED, RunState.RETRY), parked_at=None)
    return rows.update(parked_at=now)


def unpark(occurrences: Ids, *, now: datetime) -> list[UUID]:
    """Release the parked runs of occurrences that have got a slot; those that waited to retry are due."""
    parked = TaskRun.objects.filter(occurrence__in=occurrences, parked_at__isnull=False)
    ids = list(parked.order_by("id").select_for_update(no_key=True).values_list("id", flat=True))
    released = {"available_at": now, "dispatched_at": None, "parked_at": None}
    TaskRun.objects.filter(id__in=ids, state=RunState.RETRY).update(state=RunState.SCHEDULED, **released)
    TaskRun.objects.filter(id__in=ids, parked_at__isnull=False).update(dispatched_at=None, parked_at=None)
    return ids


def confirm_dispatch(ids: IdsOrTexts, *, now: datetime) -> int:
    """Record that the broker accepted their messages. The state stays."""
    return TaskRun.objects.filter(id__any=ids, state=RunState.SCHEDULED).update(dispatched_at=now)


def resolve(ids: Ids, resolution: Resolution, *, now: datetime) -> int:
    """Record that an operator replayed or purged these dead letters. The state stays."""
    return TaskRun.objects.dead().filter(id__in=ids).update(resolved_at=now, resolution=resolution)


def cancel(ids: Ids, *, reason: str, now: datetime) -> int:
    """Cancel open runs; a worker that runs one finds its claim token gone."""
    if not ids:
        return 0
    rows = TaskRun.objects.filter(id__in=ids, state__in=RUN_OPEN)
    changed = rows.update(
        state=RunState.CANCELED, finished_at=now, reason=reason, parked_at=None, **RELEASED_CLAIM
    )
    # After the runs: that UPDATE waits for a claim in progress, whose attempt is visible only then.
    end_attempts(ids, AttemptState.CANCELED, now=now)
    return changed


def reschedule(ids: Ids, *, now: datetime) -> int:
    """Schedule runs whose retry has become due."""
    rows = TaskRun.objects.retry_due(now).filter(id__in=ids)
    return rows.update(state=RunState.SCHEDULED, dispatched_at=None)


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


def _per_row(model: type[Model], column: str, values: Mapping[UUID, Any], key: str = "id") -> Case | F:
    """An expression that gives a column another value in each row, in one UPDATE."""
    if not values:
        return F(column)
    field: Any = model._meta.get_field(column)
    whens = [When(**{key: id_}, then=Value(value, output_field=field)) for id_, value in values.items()]
    return Case(*whens, default=F(column), output_field=field)

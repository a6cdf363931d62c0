"""Claim and end runs through the ORM: the same steps as `postgres`, several statements in one transaction.

SQLite has one writer at a time, so what a transaction reads cannot change before it writes. The row locks are
for any other database that Django supports; on SQLite they do nothing.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import reduce
from itertools import groupby
from operator import attrgetter, or_
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Exists, F, Model, OuterRef, Q

from punctual.conf import current_settings
from punctual.occurrences.engines.contract import (
    FIRST_INSTANT,
    ClaimedRun,
    Closing,
    Cutoff,
    Ended,
    OccurrenceFacts,
    Row,
    RunEnd,
    RunFacts,
    Take,
    Wait,
)
from punctual.occurrences.models import Attempt, Occurrence, Pool, TaskRun
from punctual.occurrences.states import (
    OCCURRENCE_ACTIVE,
    RUN_HELD,
    AttemptState,
    OccurrenceState,
    RunState,
)

BATCH = 1000
RUN_COLUMNS = (
    *("state", "finished_at", "available_at", "dispatched_at", "snoozes", "reason", "error", "fingerprint"),
    *("started_at", "attempts_made", "claim_token", "lease_until"),
)
ATTEMPT_COLUMNS = ("state", "finished_at", "error_type", "error", "traceback", "log")
OCCURRENCE_COLUMNS = (
    *("state", "finished_at", "reason", "report", "finalized_at"),
    *("holds_slot", "slot_wanted_at"),
)


def claim(ids: Sequence[UUID], take: Take) -> list[ClaimedRun]:
    with transaction.atomic():
        wanted = TaskRun.objects.filter(
            id__in=ids,
            state=RunState.SCHEDULED,
            available_at__lte=take.now,
            parked_at=None,
            occurrence__state__in=OCCURRENCE_ACTIVE,
        )
        owners = set(wanted.values_list("occurrence_id", flat=True))
        started = _start(owners, take.now)
        rows = wanted.select_related("task", "occurrence__job").order_by("id")
        runs = list(rows.select_for_update(of=("self",), no_key=True))
        for run in runs:
            _hold(run, take)
        _write_runs(runs, "claimed_by", "heartbeat_at")
        Attempt.objects.bulk_create(_first_attempt(run, take) for run in runs if run.state == "running")
        alone = _alone(owners)
        return [
            _claimed_run(run, first=run.occurrence_id in started, alone=run.occurrence_id in alone)
            for run in runs
        ]


def _start(owners: Collection[UUID], now: datetime) -> set[UUID]:
    rows = Occurrence.objects.filter(id__in=owners, state=OccurrenceState.DISPATCHED).order_by("id")
    ids = set(rows.select_for_update(no_key=True).values_list("id", flat=True))
    if ids:
        rows = Occurrence.objects.filter(id__in=ids, state=OccurrenceState.DISPATCHED)
        rows.update(state=OccurrenceState.RUNNING, started_at=now, deadline_at=now + F("execution_timeout"))
    return ids


def _hold(run: TaskRun, take: Take) -> None:
    begins = run.attempts_made < len(take.attempts)
    run.state = RunState.RUNNING if begins else RunState.CLAIMED
    run.started_at = take.now if begins else run.started_at
    run.attempts_made += begins
    run.claim_token, run.claimed_by = take.token, take.worker
    run.lease_until, run.heartbeat_at = take.lease_until, take.now


def _write_runs(runs: Sequence[TaskRun], *more: str) -> None:
    update_rows(TaskRun, runs, *RUN_COLUMNS, *more)


def _first_attempt(run: TaskRun, take: Take) -> Attempt:
    number = run.attempts_made - 1
    return Attempt(id=take.attempts[number], run=run, number=number, worker=take.worker, started_at=take.now)


def _alone(owners: Collection[UUID]) -> set[UUID]:
    others = TaskRun.objects.filter(occurrence=OuterRef("occurrence")).exclude(pk=OuterRef("pk"))
    rows = TaskRun.objects.filter(~Exists(others), occurrence__in=owners).order_by()
    return set(rows.values_list("occurrence_id", flat=True))


def _claimed_run(run: TaskRun, *, first: bool, alone: bool) -> ClaimedRun:
    occurrence = run.occurrence
    return ClaimedRun(
        id=run.id,
        task_id=run.task_id,
        task=run.task.name,
        function=run.function,
        position=run.position,
        reason=run.reason,
        policy=run.policy,
        attempts_made=run.attempts_made,
        snoozes=run.snoozes,
        started_at=run.started_at,
        begun=run.state == RunState.RUNNING,
        occurrence=_occurrence_facts(occurrence),
        run_at=occurrence.run_at,
        deadline_at=occurrence.deadline_at,
        args=occurrence.args,
        covers=occurrence.covers,
        metadata=occurrence.metadata,
        first=first,
        alone=alone,
    )


def _occurrence_facts(row: Occurrence) -> OccurrenceFacts:
    return OccurrenceFacts(
        id=row.id,
        job_id=row.job_id,
        job=row.job.name,
        job_version=row.job_version,
        cause=row.cause,
        scheduled_for=row.scheduled_for,
        pool=row.pool,
        holds_slot=row.holds_slot,
        ending=row.ending,
        reason=row.reason,
        config=row.config,
        started_at=row.started_at,
    )


def end(ends: Sequence[RunEnd], *, now: datetime) -> Ended:
    with transaction.atomic():
        occurrences = {row.id for row in lock_occurrences({item.occurrence for item in ends})}
        held = TaskRun.objects.filter(id__in=[item.run for item in ends], state__in=RUN_HELD)
        runs = {run.id: run for run in held.order_by("id").select_for_update(no_key=True)}
        valid = [
            item
            for item in ends
            if item.occurrence in occurrences
            and item.run in runs
            and runs[item.run].claim_token == item.token
        ]
        for item in valid:
            _end_run(runs[item.run], item, now)
        _write_runs([runs[item.run] for item in valid])
        _write_attempts(valid, runs, now)
        closings = [
            Closing(item.occurrence, item.outcome, "", item.finalized, item.report or "null")
            for item in valid
            if item.outcome is not None
        ]
        closed = close(closings, now=now) if closings else {}
        resting = _rest([item.occurrence for item in valid if item.rests])
        return Ended({item.run for item in valid}, closed, resting)


def _rest(ids: Collection[UUID]) -> dict[UUID, bool]:
    rows = list(Occurrence.objects.active().filter(id__in=ids)) if ids else []
    Occurrence.objects.filter(id__in=[row.id for row in rows]).update(holds_slot=False)
    is_awaited = _is_awaited(rows)
    return {row.id: is_awaited for row in rows}


def _is_awaited(freed: Sequence[Occurrence]) -> bool:
    """Whether other occurrences may wait for the jobs or the slots of these."""
    same_pool = Q(pool__in={row.pool for row in freed})
    if current_settings().max_active is not None:
        same_pool = Q(pk__isnull=False)  # all pools share a limit; an empty Q would be left out of the "or"
    queued = Occurrence.objects.waiting().filter(Q(job__in={row.job_id for row in freed}) | same_pool)
    wanting = Occurrence.objects.wanting_slots().filter(same_pool)
    return bool(freed) and (queued.exists() or wanting.exists())


def _end_run(run: TaskRun, item: RunEnd, now: datetime) -> None:
    run.state, run.finished_at = item.state, now if item.final else None
    run.available_at = item.available_at or run.available_at
    run.dispatched_at = run.dispatched_at if item.final else None
    run.snoozes += item.snoozed
    run.reason = run.reason if item.reason is None else item.reason
    run.error = run.error if item.error is None else item.error
    run.fingerprint = run.fingerprint if item.fingerprint is None else item.fingerprint
    run.started_at, run.attempts_made = item.started_at, item.number + 1
    run.claim_token = run.lease_until = None


def _write_attempts(ends: Sequence[RunEnd], runs: dict[UUID, TaskRun], now: datetime) -> None:
    """An attempt that has ended already stays as it is."""
    ended = Attempt.objects.filter(id__in=[item.attempt for item in ends])
    final = set(ended.exclude(state=AttemptState.RUNNING).values_list("id", flat=True))
    Attempt.objects.bulk_create(
        [
            Attempt(
                id=item.attempt,
                run_id=item.run,
                number=item.number,
                state=item.attempt_state,
                worker=runs[item.run].claimed_by,
                started_at=item.started_at,
                finished_at=now,
                error_type=item.error_type,
                error=item.message,
                traceback=item.traceback,
                log=item.log,
            )
            for item in ends
            if item.attempt not in final
        ],
        update_conflicts=True,
        unique_fields=["id"],
        update_fields=ATTEMPT_COLUMNS,
    )


def step_due(ids: Collection[UUID]) -> list[UUID]:
    moving = TaskRun.objects.filter(occurrence=OuterRef("pk")).moving()
    rows = Occurrence.objects.filter(~Exists(moving), id__in=ids).order_by("id")
    return list(rows.values_list("id", flat=True))


def lock_occurrences(
    ids: Collection[UUID],
    states: Iterable[OccurrenceState] = OCCURRENCE_ACTIVE,
    wait: Wait = Wait.FOREVER,
) -> list[OccurrenceFacts]:
    rows = Occurrence.objects.filter(id__in=ids, state__in=tuple(states)).select_related("job").order_by("id")
    locked = rows.select_for_update(of=("self",), no_key=True, skip_locked=wait is Wait.NEVER)
    return [_occurrence_facts(row) for row in locked]


def read_runs(occurrences: Collection[UUID]) -> list[RunFacts]:
    rows = TaskRun.objects.filter(occurrence__in=occurrences).select_related("task")
    return [
        RunFacts(
            id=run.id,
            occurrence_id=run.occurrence_id,
            task=run.task.name,
            position=run.position,
            state=run.state,
            reason=run.reason,
            policy=run.policy,
            attempts_made=run.attempts_made,
            started_at=run.started_at,
            finished_at=run.finished_at,
            error=run.error,
            held_back=run.state == RunState.SCHEDULED and run.available_at is None,
            parked=run.parked_at is not None,
        )
        for run in rows.order_by("occurrence_id", "position")
    ]


def close(
    closings: Sequence[Closing], *, states: Iterable[OccurrenceState] = OCCURRENCE_ACTIVE, now: datetime
) -> dict[UUID, bool]:
    given = {item.occurrence: item for item in closings}
    with transaction.atomic():
        rows = Occurrence.objects.filter(id__in=given, state__in=tuple(states)).order_by("id")
        closed = list(rows.select_for_update(no_key=True))
        for row in closed:
            item = given[row.id]
            row.state, row.finished_at, row.reason = item.outcome, now, item.reason
            row.report, row.finalized_at = json.loads(item.report), now if item.finalized else None
            row.holds_slot, row.slot_wanted_at = False, None
        update_rows(Occurrence, closed, *OCCURRENCE_COLUMNS)
        is_awaited = _is_awaited(closed)
        return {row.id: is_awaited for row in closed}


def lock_parents(ids: Collection[UUID]) -> set[UUID]:
    """One writer at a time: no other process can delete now."""
    return set(Occurrence.objects.filter(id__any=ids).values_list("id", flat=True))


def lock_pools(names: Collection[str], *, wait: bool) -> dict[str, int]:
    """One writer at a time: no other process counts slots now."""
    rows = Pool.objects.filter(name__in=names).order_by("name")
    return dict(rows.select_for_update(no_key=True, skip_locked=not wait).values_list("name", "size"))


def oldest_rows(cutoffs: Sequence[Cutoff], columns: tuple[str, ...], limit: int) -> list[tuple[Any, ...]]:
    rows = Occurrence.objects.filter(reduce(or_, _terms(cutoffs))).order_by("job_id", "scheduled_for", "id")
    return list(rows.values_list(*columns)[:limit])


def _terms(cutoffs: Sequence[Cutoff]) -> list[Q]:
    """One term per cutoff instead of one per job: most jobs have the same retention."""
    begun = [item for item in cutoffs if item.since != FIRST_INSTANT]
    whole = sorted((item for item in cutoffs if item.since == FIRST_INSTANT), key=attrgetter("cutoff"))
    return [
        *(
            Q(job__any=[item.job_id for item in group], scheduled_for__lt=cutoff)
            for cutoff, group in groupby(whole, key=attrgetter("cutoff"))
        ),
        *(
            Q(job=item.job_id, scheduled_for__lt=item.cutoff)
            & (Q(scheduled_for__gt=item.since) | Q(scheduled_for=item.since, id__gt=item.after))
            for item in begun
        ),
    ]


@contextmanager
def pipeline() -> Iterator[None]:
    yield


def insert_missing(model: type[Model], rows: Iterable[Row]) -> int:
    ordered = sorted(rows, key=lambda row: str(row["id"]))
    instances = [model(**{key: row[key] for key in row if key != "_state"}) for row in ordered]
    connection.ensure_connection()
    before = connection.connection.total_changes  # counted by SQLite
    model._default_manager.bulk_create(instances, ignore_conflicts=True, batch_size=BATCH)  # noqa: SLF001 - documented by Django
    return int(connection.connection.total_changes - before)


def update_rows(model: Any, rows: Sequence[Any], *columns: str) -> None:
    """INSERT … ON CONFLICT UPDATE of existing rows: one plain statement, where bulk_update would build a CASE
    of hundreds of branches for each column."""
    if rows:
        names = [field.attname for field in model._meta.concrete_fields]
        # A row may lack columns that it does not change: the row in the table keeps them.
        instances = [
            model(**{name: getattr(row, name) for name in names if hasattr(row, name)}) for row in rows
        ]
        key = [model._meta.pk.name]
        model.objects.bulk_create(instances, update_conflicts=True, unique_fields=key, update_fields=columns)

"""Cursors that are due → occurrence rows: the race to create, decided by the primary key (OCC-2).

Every beat may plan the same job at the same time: ids are computed on the client, rows inserted in
id order with conflicts ignored, so the loser simply inserts nothing. Unsorted inserts of two beats
would deadlock on PostgreSQL. The batch takes a constant number of statements.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F

from jobs.config import Config, Overlap
from jobs.events import Event, emit
from jobs.models import Job, Origin
from jobs.scheduling import job_config, schedule_of
from occurrences import cursors, transitions
from occurrences.arrays import IdText
from occurrences.behind import COMPRESSING, Behind, Disposition, look
from occurrences.choosing import choose, reach_before, starts_left
from occurrences.ids import occurrence_id, occurrence_text
from occurrences.masses import Stretch
from occurrences.models import Cause, Cursor, Occurrence
from occurrences.planning import LOOKAHEAD, Plan, plan
from occurrences.resting import last_ends, plan_rest
from occurrences.states import OccurrenceState
from occurrences.unawaited import unawaited
from occurrences.writing import Row, insert_missing, update_rows
from schedules import FixedDelay, Schedule

BATCH = 1000


@dataclass(frozen=True)
class Planned:
    """`absorbed` are late instants that were recorded as ranges, without a row each."""

    jobs: int = 0
    instants: int = 0
    absorbed: int = 0

    def __add__(self, other: "Planned") -> "Planned":
        mine, theirs = vars(self), vars(other)
        return Planned(**{name: mine[name] + theirs[name] for name in mine})


def plan_due(now: datetime, *, job: Job | None = None, limit: int = BATCH) -> Planned:
    """Of all jobs, or of one."""
    due = Cursor.objects.due(now).filter(job=job) if job else Cursor.objects.due(now)
    # A read first: on SQLite an empty tick must not take the write lock.
    if not due.exists():
        return Planned()
    with transaction.atomic():
        locked = due.order_by("plan_at", "job_id").select_for_update(skip_locked=True, no_key=True)
        ids = locked.values_list(IdText("job_id"), flat=True)
        return _plan(cursors.read(list(ids[:limit])), now)


def plan_jobs(jobs: Collection[UUID], *, now: datetime) -> None:
    """Bring these jobs up to now before their definition changes: what the old one owed stays owed."""
    due = Cursor.objects.due(now).filter(job__any=jobs).select_related("job").order_by("job_id")
    while held := list(due.select_for_update(of=("self",), no_key=True)):
        _plan(held, now, closing=True)


def _plan(held: list[Cursor], now: datetime, *, closing: bool = False) -> Planned:
    _forget_edited(held)
    behind = look(held, now, closing=closing)
    ends = last_ends(held)
    rows = [row for found in advanced(held, now, behind, ends) for row in found]
    with unawaited():
        create_missing(rows)
        write_cursors(held)
    _dispose_of_older(behind)
    return Planned(jobs=len(held), instants=len(rows), absorbed=behind.instants)


def create_missing(rows: Iterable[Occurrence | Row]) -> int:
    """Insert what nobody has inserted yet, and how many that were."""
    return insert_missing(Occurrence, (vars(row) if isinstance(row, Occurrence) else row for row in rows))


def write_cursors(held: list[Cursor]) -> None:
    update_rows(held, "settled_until", "planned_until", "plan_at", "problem")


def _forget_edited(held: Iterable[Cursor]) -> None:
    """An edit takes back what the old definition had planned after the moment of the edit."""
    edited = [cursor.job_id for cursor in held if cursor.planned_until is None]
    if edited:
        Occurrence.objects.filter(
            job__any=edited,
            state=OccurrenceState.PENDING,
            cause=Cause.SCHEDULE,
            scheduled_for__gt=F("job__updated_at"),
        ).delete()


def _dispose_of_older(behind: Behind) -> None:
    """Late rows from before a mass do not run either: enough newer instants follow them."""
    for disposition in sorted(set(behind.absorbed.values()), key=attrgetter("reason")):
        if disposition.reason == COMPRESSING:
            continue  # they are part of what the compressed run covers
        jobs = [job for job, given in behind.absorbed.items() if given == disposition]
        older = Occurrence.objects.due(behind.now).late(behind.now).filter(job__any=jobs)
        ids = list(older.values_list("id", flat=True))
        end = transitions.skip if disposition.state == OccurrenceState.SKIPPED else transitions.miss
        end(ids, reason=disposition.reason, now=behind.now)


def advanced(
    held: Iterable[Cursor], now: datetime, behind: Behind, ends: Mapping[UUID, datetime | None]
) -> Iterator[list[Row]]:
    """The rows each cursor owes, which moves on by them."""
    config_of = _remembering()
    for cursor in held:
        yield _advance(cursor, now, behind, ends, config_of)


def _remembering() -> Callable[[Job], Config]:
    """Most jobs of a batch share a few configurations, and the commonest of them says nothing."""
    plain: list[Config] = []

    def config_of(job: Job) -> Config:
        if job.config != {}:
            return job_config(job)
        if not plain:
            plain.append(job_config(job))
        return plain[0]

    return config_of


def _advance(
    cursor: Cursor,
    now: datetime,
    behind: Behind,
    ends: Mapping[UUID, datetime | None],
    config_of: Callable[[Job], Config],
) -> list[Row]:
    if behind.exhausted:
        return []  # still due: the next batch goes on with it
    job = cursor.job
    cursor.problem, cursor.plan_at = "", None
    if not plannable(job):
        return []
    start = cursor.planned_until or max(cursor.settled_until, job.updated_at)
    try:
        config = config_of(job)
        schedule = schedule_of(job, config)
        if starts_left(schedule, cursor.starts) == 0:
            return []
        if isinstance(schedule, FixedDelay):
            ahead = plan_rest(schedule, start=start, ended=ends.get(job.id, start), now=now)
        else:
            lookahead = LOOKAHEAD + reach_before(schedule, config)
            ahead = plan(schedule, start=start, now=now, lookahead=lookahead)
        rows: list[Row] = []
        if behind.is_mass(ahead, schedule, config):
            mass = behind.absorb(job, schedule, config, start)
            rows = [range_row(job, config, item, behind.absorbed[job.id], now) for item in mass.stretches]
            until = mass.reached
            ahead = behind.portion(job, ahead, start) if until is None else Plan((), until, until)
        rows += [planned_row(job, schedule, config, instant, now) for instant in ahead.instants]
    except Exception as error:  # noqa: BLE001 - rows are edited by any road, and a kind may be user code
        # One broken job must not stop the others.
        cursor.problem = f"{type(error).__name__}: {error}"
        emit(Event.JOB_UNPLANNABLE, job=job.name, problem=cursor.problem)
        return []
    cursor.planned_until, cursor.plan_at = ahead.planned_until, ahead.plan_at
    cursor.settled_until = max(cursor.settled_until, min(now, ahead.planned_until))
    return rows


def plannable(job: Job) -> bool:
    """A polling scheduler starts its own jobs; beats only show them."""
    return job.enabled and not job.removed and job.origin != Origin.POLLING


def planned_row(job: Job, schedule: Schedule, config: Config, scheduled_for: datetime, now: datetime) -> Row:
    choice = choose(schedule, config, job.name, scheduled_for)
    columns: dict[str, object] = {"late_at": choice.run_at + config.misfire_grace}
    if choice.refusal:
        columns |= {"state": OccurrenceState.SKIPPED, "reason": choice.refusal}
        columns |= {"finished_at": now, "finalized_at": now}
    return new_row(
        job,
        config,
        scheduled_for=scheduled_for,
        run_at=choice.run_at,
        now=now,
        expires_at=choice.expires_at,
        **columns,
    )


def range_row(job: Job, config: Config, stretch: Stretch, disposition: Disposition, now: datetime) -> Row:
    """One row for many instants that never run; its id is the one of the first."""
    return new_row(
        job,
        config,
        scheduled_for=stretch.first,
        run_at=stretch.first,
        now=now,
        state=disposition.state,
        reason=disposition.reason,
        finished_at=now,
        finalized_at=now,
        spans_until=stretch.last if stretch.count > 1 else None,
        instants=stretch.count,
    )


def new_occurrence(
    job: Job,
    config: Config,
    *,
    scheduled_for: datetime,
    run_at: datetime,
    now: datetime,
    **columns: object,
) -> Occurrence:
    row = new_row(job, config, scheduled_for=scheduled_for, run_at=run_at, now=now)
    own = {"id": occurrence_id(job.id, scheduled_for), "job_id": job.id, "config": config.dumped()}
    made = Occurrence(**row | own | columns)
    made.job = job
    return made


def new_row(
    job: Job, config: Config, *, scheduled_for: datetime, run_at: datetime, now: datetime, **columns: object
) -> dict[str, Any]:
    """The columns alone: a model's constructor takes ten times as long, and a batch needs a thousand."""
    owner = str(job.id)
    return {
        "id": occurrence_text(owner, scheduled_for),
        "job_id": owner,
        "job_version": job.version,
        "scheduled_for": scheduled_for,
        "run_at": run_at,
        "exclusive": config.overlap is not Overlap.ALLOW,
        "pool": config.pool,
        "priority": config.priority,
        "config": config.stored,
        "execution_timeout": config.execution_timeout,
        "created_at": now,
        **columns,
    }

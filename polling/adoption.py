"""Checked registrations → the stored set: new, preserved, overridden, removed; all of it or nothing (POL-1).

The roster's row is the mutex: of two `initialize` at once, in any processes, the second sees what the
first left behind. A run under way keeps its claim through all of it, so that nothing overlaps.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import F

from jobs.config import Overlap, normalized
from jobs.definition import Definition, TaskDefinition
from jobs.durations import LONGEST
from jobs.errors import DefinitionError
from jobs.ids import job_id
from jobs.models import Job, Origin
from jobs.retry import Retry
from jobs.store import Change, store
from occurrences.states import RUN_HELD, RunState
from polling.due import minute_of
from polling.errors import PollingError, ScheduleTaskError, TaskListMismatchError
from polling.ledger import give_up
from polling.models import Roster, TaskState
from polling.persisted import deserialized
from polling.reading import record
from polling.registrations import Callback, Checked, Rule

REGISTERED_ANEW = "registered anew"
NOT_REGISTERED = "no longer registered"
LONGEST_FUNCTION = 500


@dataclass(frozen=True)
class Adopted:
    """Names by what became of them."""

    new: tuple[str, ...] = ()
    preserved: tuple[str, ...] = ()
    overridden: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def classify(wanted: Mapping[str, Rule], stored: Mapping[str, Rule]) -> Adopted:
    return Adopted(
        new=tuple(sorted(wanted.keys() - stored.keys())),
        preserved=tuple(sorted(name for name in wanted if stored.get(name) == wanted[name])),
        overridden=tuple(sorted(name for name in wanted if name in stored and stored[name] != wanted[name])),
        removed=tuple(sorted(stored.keys() - wanted.keys())),
    )


def adopt(registrations: Iterable[Checked], *, scheduler_id: UUID, zone: str, now: datetime) -> Adopted:
    wanted = {item.name: item for item in registrations}
    change = Change(Origin.POLLING, author="polling scheduler", now=now, reason="registered")
    with transaction.atomic():
        _sign_roster(scheduler_id, now)
        stored = _stored()
        fate = classify({name: item.rule for name, item in wanted.items()}, stored)
        for name in (*fate.new, *fate.overridden):
            with _scheduling(name, wanted[name].rule):
                _check_owner(name)
                store([_definition(wanted[name], zone)], change)
                _reset(wanted[name], scheduler_id, zone=zone, now=now)
        for name in fate.removed:
            with _scheduling(name, stored[name]):
                _remove(name, now)
        _keep([wanted[name] for name in fate.preserved], scheduler_id, zone=zone, change=change)
        _verify(wanted)
    return fate


@contextmanager
def _scheduling(name: str, rule: Rule) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise ScheduleTaskError(name, rule.cron, error) from error


def _sign_roster(scheduler_id: UUID, now: datetime) -> None:
    Roster.objects.bulk_create([Roster()], ignore_conflicts=True)
    Roster.objects.select_for_update().get(pk=Roster.THE_ONE)
    Roster.objects.filter(pk=Roster.THE_ONE).update(scheduler_id=scheduler_id, initialized_at=now)


def _stored() -> dict[str, Rule]:
    jobs = Job.objects.registered().filter(origin=Origin.POLLING).order_by("id")
    states = {row.job_id: row for row in TaskState.objects.filter(job__in=jobs.values("id"))}
    return {job.name: _rule(job, states.get(job.id)) for job in jobs}


def _rule(job: Job, state: TaskState | None) -> Rule:
    try:
        return deserialized(record(job, state)).rule
    except PollingError as error:
        error.add_note(f"while reading the stored task {job.name!r}")
        raise


def _check_owner(name: str) -> None:
    others = Job.objects.registered().exclude(origin=Origin.POLLING)
    if other := others.filter(pk=job_id(name)).first():
        reason = f"another job has this name: {Origin(other.origin).label}"
        raise DefinitionError("name", name, reason)


def _definition(item: Checked, zone: str) -> Definition:
    config = {
        "timezone": zone,
        "overlap": Overlap.SKIP,
        # Callbacks have no deadline, and a beat must neither end them nor retry what it finds lost.
        "execution_timeout": LONGEST,
        "task_timeout": LONGEST,
        "retry": Retry(0, item.rule.retry_delay, max_interval=LONGEST),
    }
    step = TaskDefinition(item.name, _function(item.callback))
    return Definition(item.name, item.rule.schedule, normalized(config, owner=item.name), {}, (step,))


def _function(callback: Callback) -> str:
    """For people to read: nothing is ever called by this name."""
    named = callback if hasattr(callback, "__qualname__") else type(callback)
    return f"{named.__module__}.{named.__qualname__}"[:LONGEST_FUNCTION]


def _reset(item: Checked, scheduler_id: UUID, *, zone: str, now: datetime) -> None:
    """First start-up of a new or changed task: only the minute that is now counts."""
    item.rule.pattern.next_after(now, zone)  # a pattern without a next minute is refused here
    owner = job_id(item.name)
    _drop_retry(owner, reason=REGISTERED_ANEW, now=now)
    fresh = TaskState(
        job_id=owner, scheduler_id=scheduler_id, retry_delay=item.rule.retry_delay, counts_from=minute_of(now)
    )
    TaskState.objects.bulk_create([fresh], ignore_conflicts=True)
    TaskState.objects.filter(job=owner).update(
        scheduler_id=scheduler_id,
        retry_delay=item.rule.retry_delay,
        counts_from=minute_of(now),
        last_attempt_at=None,
        last_success_at=None,
        pending_retry_until=None,
        revision=F("revision") + 1,
    )


def _remove(name: str, now: datetime) -> None:
    """The job's row stays for its history; a callback under way may finish."""
    owner = job_id(name)
    _drop_retry(owner, reason=NOT_REGISTERED, now=now)
    TaskState.objects.filter(job=owner).update(pending_retry_until=None, revision=F("revision") + 1)
    Job.objects.filter(pk=owner).update(removed_at=now, updated_at=now)


def _drop_retry(owner: UUID, *, reason: str, now: datetime) -> None:
    rows = TaskState.objects.select_for_update(of=("self",), no_key=True).select_related(
        "run__task", "run__occurrence__job"
    )
    state = rows.filter(job=owner).first()
    if state is None or state.run is None or state.run.state in RUN_HELD:
        return  # a claim is kept: what runs runs on, what was interrupted starts again
    if state.run.state == RunState.FAILED:
        give_up(state.run, reason=reason, now=now)
    TaskState.objects.filter(job=owner).update(run=None)


def _keep(items: list[Checked], scheduler_id: UUID, *, zone: str, change: Change) -> None:
    """Same text, same delay: the state goes on, only who looks after it is new."""
    if not items:
        return
    with _scheduling(items[0].name, items[0].rule):
        store([_definition(item, zone) for item in items], change)
        owners = [job_id(item.name) for item in items]
        TaskState.objects.filter(job__in=owners).update(scheduler_id=scheduler_id)


def _verify(wanted: Mapping[str, Checked]) -> None:
    expected = {name: item.rule for name, item in wanted.items()}
    actual = _stored()
    if actual != expected:
        raise TaskListMismatchError(sorted(expected), sorted(actual))

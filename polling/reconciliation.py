"""Make the stored tasks equal to the registrations, in one transaction (POL-1).

Tasks are new, preserved, overridden or removed. The roster row is a lock: of two concurrent `initialize`
calls, in any processes, the second sees the result of the first. A run in progress keeps its claim, so
that a changed task does not overlap with its earlier run.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import F

from punctual.jobs.config.bounded_duration import MAX_DURATION
from punctual.jobs.config.choices import Overlap
from punctual.jobs.config.keys import normalize
from punctual.jobs.config.retry import Retry
from punctual.jobs.definition.document import Definition, TaskDefinition
from punctual.jobs.errors import DefinitionError
from punctual.jobs.ids import job_id
from punctual.jobs.models import Job, Origin
from punctual.jobs.store.definitions import Change, remove, store
from punctual.occurrences.states import RUN_HELD, Reason, RunState
from punctual.polling.deserialization import deserialize
from punctual.polling.eligibility import minute_of
from punctual.polling.errors import ScheduleTaskError, TaskListMismatchError, TaskTryDeserializeError
from punctual.polling.models import Roster, TaskState
from punctual.polling.registrations import Callback, CheckedRegistration, Rule, digest
from punctual.polling.runs import abandon_retry
from punctual.polling.snapshots import stored_fields

MAX_FUNCTION_LENGTH = 500


@dataclass(frozen=True)
class Reconciliation:
    """Task names by what happened to them."""

    new: tuple[str, ...] = ()
    preserved: tuple[str, ...] = ()
    overridden: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    # Stored tasks that could not be read: overridden if they are registered, otherwise removed.
    unreadable: Mapping[str, TaskTryDeserializeError] = field(default_factory=dict)


def classify(registered: Mapping[str, Rule], stored: Mapping[str, Rule | None]) -> Reconciliation:
    return Reconciliation(
        new=tuple(sorted(registered.keys() - stored.keys())),
        preserved=tuple(sorted(name for name in registered if stored.get(name) == registered[name])),
        overridden=tuple(
            sorted(name for name in registered if name in stored and stored[name] != registered[name])
        ),
        removed=tuple(sorted(stored.keys() - registered.keys())),
    )


def reconcile(
    registrations: Iterable[CheckedRegistration], *, scheduler_id: UUID, zone: str, now: datetime
) -> Reconciliation:
    """Store the registrations and remove all other tasks; raises and changes nothing if one fails."""
    registered = {item.name: item for item in registrations}
    change = Change(Origin.POLLING, author="polling scheduler", now=now, reason="registered")
    with transaction.atomic():
        _lock_roster(scheduler_id, digest(registered.values()), now)
        stored, unreadable = _stored_rules()
        result = classify({name: item.rule for name, item in registered.items()}, stored)
        for name in (*result.new, *result.overridden):
            with _schedule_errors(name, registered[name].rule):
                _check_owner(name)
                store([_definition(registered[name], zone)], change)
                _reset(registered[name], scheduler_id, zone=zone, now=now)
        _remove(result.removed, change)
        _preserve([registered[name] for name in result.preserved], scheduler_id, zone=zone, change=change)
        _verify(registered)
    return replace(result, unreadable=unreadable)


@contextmanager
def _schedule_errors(name: str, rule: Rule) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise ScheduleTaskError(name, rule.cron, error) from error


def _lock_roster(scheduler_id: UUID, set_digest: str, now: datetime) -> None:
    Roster.objects.bulk_create([Roster()], ignore_conflicts=True)
    Roster.objects.select_for_update().get(pk=Roster.SINGLETON_ID)
    row = Roster.objects.filter(pk=Roster.SINGLETON_ID)
    row.update(scheduler_id=scheduler_id, initialized_at=now, digest=set_digest)


def _stored_rules() -> tuple[dict[str, Rule | None], dict[str, TaskTryDeserializeError]]:
    """The stored rules by name, None for a task that cannot be read, and why."""
    jobs = Job.objects.registered().filter(origin=Origin.POLLING).order_by("id")
    states = {row.job_id: row for row in TaskState.objects.filter(job__in=jobs.values("id"))}
    rules: dict[str, Rule | None] = {}
    unreadable: dict[str, TaskTryDeserializeError] = {}
    for job in jobs:
        try:
            rules[job.name] = deserialize(stored_fields(job, states.get(job.id))).rule
        except TaskTryDeserializeError as error:
            rules[job.name], unreadable[job.name] = None, error
    return rules, unreadable


def _check_owner(name: str) -> None:
    others = Job.objects.registered().exclude(origin=Origin.POLLING)
    if other := others.filter(pk=job_id(name)).first():
        reason = f"another job has this name: {Origin(other.origin).label}"
        raise DefinitionError("name", name, reason)


def _definition(item: CheckedRegistration, zone: str) -> Definition:
    config = {
        "timezone": zone,
        "overlap": Overlap.SKIP,
        # Callbacks have no timeout, and a beat must neither end them nor retry a lost run.
        "execution_timeout": MAX_DURATION,
        "task_timeout": MAX_DURATION,
        "retry": Retry(0, item.rule.retry_delay, max_interval=MAX_DURATION),
    }
    step = TaskDefinition(item.name, _function(item.callback))
    return Definition(item.name, item.rule.schedule, normalize(config, owner=item.name), {}, (step,))


def _function(callback: Callback) -> str:
    """The name of the callback, for display only."""
    named = callback if hasattr(callback, "__qualname__") else type(callback)
    return f"{named.__module__}.{named.__qualname__}"[:MAX_FUNCTION_LENGTH]


def _reset(item: CheckedRegistration, scheduler_id: UUID, *, zone: str, now: datetime) -> None:
    """Reset the state of a new or changed task: the current minute is the first that counts."""
    item.rule.pattern.next_after(now, zone)  # raises if the pattern has no next minute
    owner = job_id(item.name)
    _drop_retry(owner, reason=Reason.REGISTERED_ANEW, now=now)
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


def _remove(names: Collection[str], change: Change) -> None:
    """Mark the jobs as removed. Their rows keep the history, and running callbacks may finish."""
    owners = [job_id(name) for name in names]
    for owner in owners:
        _drop_retry(owner, reason=Reason.NOT_REGISTERED, now=change.now)
    TaskState.objects.filter(job__in=owners).update(pending_retry_until=None, revision=F("revision") + 1)
    remove(owners, replace(change, reason=Reason.NOT_REGISTERED))


def _drop_retry(owner: UUID, *, reason: str, now: datetime) -> None:
    rows = TaskState.objects.select_for_update(of=("self",), no_key=True).select_related(
        "run__task", "run__occurrence__job"
    )
    state = rows.filter(job=owner).first()
    if state is None or state.run is None or state.run.state in RUN_HELD:
        return  # keep the claim: a running callback goes on, an interrupted one starts again
    if state.run.state == RunState.FAILED:
        abandon_retry(state.run, reason=reason, now=now)
    TaskState.objects.filter(job=owner).update(run=None)


def _preserve(items: list[CheckedRegistration], scheduler_id: UUID, *, zone: str, change: Change) -> None:
    """Keep the state of unchanged tasks; only the owning scheduler changes."""
    if not items:
        return
    with _schedule_errors(items[0].name, items[0].rule):
        store([_definition(item, zone) for item in items], change)
        owners = [job_id(item.name) for item in items]
        TaskState.objects.filter(job__in=owners).update(scheduler_id=scheduler_id)


def _verify(registered: Mapping[str, CheckedRegistration]) -> None:
    expected = {name: item.rule for name, item in registered.items()}
    actual, _ = _stored_rules()
    if actual != expected:
        raise TaskListMismatchError(sorted(expected), sorted(actual))

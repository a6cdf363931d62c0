"""Keep the calls of hooks as rows: insert them, claim one for a process, record how a try ended (JOB-9).

A claim is one guarded UPDATE with a lease that is longer than the time limit of a hook, so a hook has one
process at a time, and a slot. `hook_slots` bounds how many processes all hooks together take away from other
work. A hook that hung in the last minutes gets the first slot only, and shares it with all such hooks.

A hook that raises has failed. A hook that hangs, or whose process dies, is tried again, at most `MAX_TRIES`
times in all. The outcome of the occurrence does not depend on any of it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4, uuid5

from django.db import IntegrityError, transaction
from django.db.models import (
    BooleanField,
    Case,
    Count,
    DateTimeField,
    Exists,
    ExpressionWrapper,
    F,
    OuterRef,
    Q,
    Value,
    When,
)

from punctual.conf import Settings
from punctual.execution.broker.errors import BROKER_ERRORS
from punctual.execution.broker.messages import settle_message
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.models import HookCall, HookEvent
from punctual.jobs.events import Event, emit
from punctual.occurrences import transitions
from punctual.occurrences.models import Occurrence
from punctual.occurrences.states import OCCURRENCE_ACTIVE

MAX_TRIES = 3
FREE: dict[str, Any] = {"slot": None, "token": None, "lease_until": None, "requested_at": None}
HUNG = (Ending.TIMEOUT, Ending.LOST)
OVER = "not called: the occurrence was over"
LOST = "its worker stopped responding"


# -- due calls -------------------------------------------------------------------------------------------


def register(occurrences: Iterable[Occurrence], *, now: datetime) -> bool:
    """Insert the calls that these unsettled occurrences owe, unless they exist; False: they owe none."""
    rows = [row for occurrence in occurrences for row in _due_calls(occurrence, now)]
    HookCall.objects.bulk_create(sorted(rows, key=lambda row: row.id), ignore_conflicts=True)
    over = {row.occurrence_id for row in rows if row.event == HookEvent.ON_COMPLETE}
    # An occurrence that was canceled before its start.
    late = HookCall.objects.waiting(now).filter(occurrence__in=over, event=HookEvent.ON_START)
    late.update(finished_at=now, error=OVER, **FREE)
    return bool(rows)


def _due_calls(occurrence: Occurrence, now: datetime) -> Iterator[HookCall]:
    event = HookEvent.ON_COMPLETE if occurrence.finished_at else HookEvent.ON_START
    for position, name in enumerate(occurrence.config.get(event, ())):
        yield HookCall(
            id=uuid5(occurrence.id, f"{event}:{name}"),
            occurrence=occurrence,
            event=event,
            hook=name,
            position=position,
            created_at=now,
        )


def all_called(event: HookEvent, hooks: Mapping[UUID, Collection[str]]) -> list[UUID]:
    """Those of the occurrences whose hooks of this event are over; `hooks` are the names of each."""
    calls = HookCall.objects.filter(occurrence__in=hooks, event=event, finished_at__isnull=False)
    counts = dict(calls.order_by().values_list("occurrence").annotate(Count("pk"))) if hooks else {}
    return [id_ for id_, names in hooks.items() if counts.get(id_, 0) >= len(names)]


def finalize(ids: Collection[UUID], *, now: datetime) -> int:
    """Finalize finished occurrences that have no hook left to call."""
    rows = Occurrence.objects.unfinalized().filter(id__in=ids).values_list("id", "config__on_complete")
    hooks = {id_: names or () for id_, names in rows}
    return transitions.finalize(all_called(HookEvent.ON_COMPLETE, hooks), now=now)


def request_hooks(ids: Collection[UUID]) -> int:
    """Ask workers to call hooks that are due; if the broker fails, the sweeper asks again."""
    if not ids:
        return 0
    rows = Occurrence.objects.unsettled().filter(id__in=ids)
    due = dict(rows.values_list("id", "config__queue"))
    try:
        for id_, queue in due.items():
            settle_message(id_, queue=queue or "").apply_async()
    except BROKER_ERRORS as error:
        emit(Event.RUN_DISPATCH_FAILED, unsent=len(due), error=type(error).__name__)
    return len(due)


# -- tries -----------------------------------------------------------------------------------------------


def claim(call: HookCall, *, hung: bool, worker: str, now: datetime, settings: Settings) -> UUID | None:
    """The token for one try; None: no slot is free, another process has the call, or it is over."""
    token = uuid4()
    lease = settings.hook_timeout + settings.kill_after + settings.lease
    waiting = HookCall.objects.waiting(now).filter(id=call.id, tries__lt=MAX_TRIES)
    # Not a join: Django would move all guards into a subquery, and two processes could pass them at once.
    active = Occurrence.objects.filter(id=OuterRef("occurrence_id"), state__in=OCCURRENCE_ACTIVE)
    due = waiting.filter(Q(event=HookEvent.ON_COMPLETE) | Exists(active))
    for slot in free_slots(hung=hung, now=now, settings=settings):
        try:
            with transaction.atomic():
                if lock_calls([call.id]):
                    return None
                taken = due.update(
                    slot=slot,
                    token=token,
                    worker=worker,
                    lease_until=now + lease,
                    started_at=now,
                    tries=F("tries") + 1,
                )
        except IntegrityError:
            continue  # another process has just taken the slot
        return token if taken else None
    return None


def hand_back(call: HookCall) -> None:
    """Forget a request that found no slot: the sweeper may ask again as soon as one is free."""
    if call.requested_at is not None:
        requested = HookCall.objects.filter(id=call.id, token=None, requested_at=call.requested_at)
        requested.update(requested_at=None)


def free_slots(*, hung: bool, now: datetime, settings: Settings) -> list[int]:
    """Slots for a call. The first is the only one for hooks that hung; others take it last."""
    calls = list(HookCall.objects.filter(slot__isnull=False).only("id", "slot", "token", "lease_until"))
    expired = {call.id: call.token for call in calls if call.lease_until and call.lease_until <= now}
    if expired:
        with transaction.atomic():
            for id_ in lock_calls(expired):
                del expired[id_]
            for id_, token in expired.items():
                if token is not None:  # its whole worker died
                    end_try(id_, token, Result(Ending.LOST, error=LOST), now=now)
    taken = {call.slot for call in calls if call.id not in expired}
    count = settings.hook_slots or max(2, settings.worker_slots // 4)
    return [slot for slot in (range(1) if hung else reversed(range(count))) if slot not in taken]


def lock_calls(ids: Collection[UUID]) -> set[UUID]:
    """Lock calls, and return those that another session holds: nothing waits for a call of a hook."""
    rows = HookCall.objects.filter(id__in=ids).order_by("id")
    locked = set(rows.select_for_update(skip_locked=True, no_key=True).values_list("id", flat=True))
    return set(rows.values_list("id", flat=True)) - locked


def end_try(call: UUID, token: UUID, result: Result, *, now: datetime) -> bool:
    """Record how a try ended; False: the process had lost the call."""
    rows = HookCall.objects.filter(id=call, token=token)
    match result.ending:
        case Ending.SUCCESS:
            changed = rows.update(finished_at=now, error="", **FREE)
        case Ending.RELEASED:
            changed = rows.update(tries=F("tries") - 1, **FREE)  # the worker was told to stop
        case ending if ending in HUNG:
            changed = rows.update(**_hung(result.error, now))
        case _:
            error = f"{result.error_type}: {result.error}" if result.error_type else result.error
            changed = rows.update(finished_at=now, failed=True, error=error, **FREE)
    if changed and result.ending not in (Ending.SUCCESS, Ending.RELEASED):
        _emit_failed([call])
    return changed == 1


def forget_hung(call: HookCall) -> None:
    """The hook works again: its calls need no longer share a slot."""
    same = HookCall.objects.filter(
        hook=call.hook, occurrence__job=call.occurrence.job_id, hung_at__isnull=False
    )
    same.update(hung_at=None)


def _hung(error: str, now: datetime) -> dict[str, Any]:
    last = Q(tries__gte=MAX_TRIES)
    finished_at = Case(When(last, then=Value(now)), output_field=DateTimeField())
    failed = ExpressionWrapper(last, output_field=BooleanField())
    return {"finished_at": finished_at, "failed": failed, "hung_at": now, "error": error, **FREE}


def _emit_failed(ids: Collection[UUID]) -> None:
    for call in HookCall.objects.filter(id__in=ids).select_related("occurrence__job"):
        emit(
            Event.HOOK_FAILED,
            job=call.occurrence.job.name,
            occurrence=call.occurrence.display_id,
            hook=call,
            tries=call.tries,
            error=call.error,
        )

"""Ask workers to settle occurrences whose runs have ended, and to call hooks that were not called (REC-3).

Hooks are user code, so they run in workers. The sweeper only sends the same message as a chord's callback. Of
the calls that have a row it requests as many as have a slot (`hook_calls`), and none that is being made.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Case, Exists, OuterRef, Q, When

from punctual.conf import current_settings
from punctual.execution.broker.dispatch import Dispatched
from punctual.execution.broker.errors import BROKER_ERRORS
from punctual.execution.broker.messages import settle_message
from punctual.execution.ending.hook_calls import free_slots
from punctual.execution.models import HookCall
from punctual.jobs.events import Event, emit
from punctual.occurrences import transitions
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.querysets import OccurrenceQuerySet
from punctual.occurrences.states import RUN_OPEN

BATCH = 200
SETTLE_GRACE = timedelta(seconds=30)


def request_settlement(now: datetime, *, just_ended: Collection[UUID] = (), limit: int = BATCH) -> Dispatched:
    """Send settle messages; those in `just_ended` were ended by this sweep and skip the grace period."""
    ids = [*_ids(unsettled_occurrences(now), limit), *_ids(unfinalized_occurrences(now, just_ended), limit)]
    requested = _mark_requested(ids, now) if ids else {}
    requested |= _request_calls(now)
    sent = 0
    try:
        for id_, queue in requested.items():
            settle_message(id_, queue=queue or "").apply_async()
            sent += 1
    except BROKER_ERRORS as error:
        emit(Event.RUN_DISPATCH_FAILED, unsent=len(requested) - sent, error=type(error).__name__)
    return Dispatched(sent=sent, failed=len(requested) - sent)


def _mark_requested(ids: Collection[UUID], now: datetime) -> dict[UUID, str]:
    """Record the requests before sending them, so that sweeps do not pile up messages while no worker runs.

    Rows that another sweep or a settling worker has locked are skipped: it handles them.
    """
    with transaction.atomic():
        rows = Occurrence.objects.filter(_not_requested(now), id__in=ids).order_by("id")
        locking = rows.select_for_update(skip_locked=True, no_key=True)
        locked: dict[UUID, str] = dict(locking.values_list("id", "config__queue"))
        transitions.note_settle_request(locked, now=now)
    return locked


def _request_calls(now: datetime) -> dict[UUID, str]:
    """Occurrences with a call that waits for a process, and their queues; noted as requested."""
    waiting = HookCall.objects.waiting(now).filter(_not_requested_call(now))
    if not waiting.exists():
        return {}
    # Not those that another sweep or any other session holds.
    waiting = waiting.select_for_update(skip_locked=True, no_key=True, of=("self",))
    # Start hooks first: tasks wait for them.
    ordered = waiting.order_by("-event", "created_at", "id")
    # Of those that hung, start hooks and completion hooks in turn: each kind may have a backlog.
    last = HookCall.objects.filter(hung_at__isnull=False).order_by("-hung_at").values_list("event", flat=True)
    in_turn = waiting.order_by(Case(When(event=last.first() or "", then=1), default=0), "created_at", "id")
    sound, hanging = (
        len(free_slots(hung=hung, now=now, settings=current_settings())) for hung in (False, True)
    )
    with transaction.atomic():
        calls = [*ordered.sound(now)[:sound], *in_turn.hanging(now)[:hanging]]
        HookCall.objects.filter(id__in=[call.id for call in calls]).update(requested_at=now)
    rows = Occurrence.objects.filter(id__in={call.occurrence_id for call in calls})
    return dict(rows.values_list("id", "config__queue"))


def unsettled_occurrences(now: datetime) -> OccurrenceQuerySet:
    """Active occurrences without a run that is released and open: the next step was never taken."""
    moving = TaskRun.objects.filter(occurrence=OuterRef("pk"), state__in=RUN_OPEN, available_at__isnull=False)
    stuck = Occurrence.objects.active().filter(
        ~Exists(moving), ~_has_calls(), fired_at__lte=now - SETTLE_GRACE
    )
    return stuck.filter(_not_requested(now)).order_by("fired_at")


def unfinalized_occurrences(now: datetime, just_ended: Collection[UUID] = ()) -> OccurrenceQuerySet:
    """Finished occurrences whose hooks have not been called."""
    overdue = Q(finished_at__lte=now - SETTLE_GRACE) | Q(id__in=just_ended)
    due = Occurrence.objects.unfinalized().filter(~_has_calls(), _not_requested(now), overdue)
    return due.order_by("finished_at")


def _has_calls() -> Exists:
    """Open calls of hooks are requested one by one, as slots become free."""
    return Exists(HookCall.objects.open().filter(occurrence=OuterRef("pk")))


def _ids(rows: OccurrenceQuerySet, limit: int) -> list[UUID]:
    return list(rows.values_list("id", flat=True)[:limit])


def _not_requested(now: datetime) -> Q:
    return Q(settle_requested_at=None) | Q(settle_requested_at__lte=now - SETTLE_GRACE)


def _not_requested_call(now: datetime) -> Q:
    return Q(requested_at=None) | Q(requested_at__lte=now - SETTLE_GRACE)

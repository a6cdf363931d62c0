"""Questions about the tables of the ledger: each method is a condition, and none of them writes."""

from datetime import datetime
from typing import TYPE_CHECKING, Self

from django.db import models
from django.db.models import F, Q

from punctual.occurrences.states import OCCURRENCE_ACTIVE, RUN_HELD, RUN_MOVING, OccurrenceState, RunState

if TYPE_CHECKING:
    pass

if TYPE_CHECKING:
    from punctual.occurrences.models import Cursor, Occurrence, TaskRun  # noqa: F401 - named in the bases


class CursorQuerySet(models.QuerySet["Cursor"]):
    def due(self, now: datetime) -> Self:
        """Jobs that must be planned."""
        return self.filter(plan_at__lte=now)


class OccurrenceQuerySet(models.QuerySet["Occurrence"]):
    def due(self, now: datetime) -> Self:
        """Pending, and the start time has come."""
        return self.filter(state=OccurrenceState.PENDING, run_at__lte=now)

    def timely(self, now: datetime) -> Self:
        return self.filter(Q(late_at__isnull=True) | Q(late_at__gt=now))

    def late(self, now: datetime) -> Self:
        """Left to catch-up: firing does not take them any more."""
        return self.filter(late_at__lte=now)

    def active(self) -> Self:
        return self.filter(state__in=OCCURRENCE_ACTIVE)

    def waiting(self) -> Self:
        """Due, but waiting for a slot or a predecessor."""
        return self.filter(state=OccurrenceState.QUEUED)

    def overdue(self, now: datetime) -> Self:
        """Active beyond their execution_timeout; the wait for a slot does not count toward it."""
        return self.active().filter(deadline_at__lte=now, slot_wanted_at=None)

    def holding_slots(self) -> Self:
        """Active, and not only waiting: they take slots of their pools."""
        return self.filter(holds_slot=True)

    def wanting_slots(self) -> Self:
        """Active without a slot, and ready to go on as soon as they get one."""
        return self.filter(slot_wanted_at__isnull=False)

    def unfinalized(self) -> Self:
        """Finished, but their completion hooks were not called."""
        return self.filter(finished_at__isnull=False, finalized_at=None)

    def unsettled(self) -> Self:
        """A next step or a completion hook is still to come."""
        return self.active() | self.unfinalized()


class TaskRunQuerySet(models.QuerySet["TaskRun"]):
    def dead(self) -> Self:
        """Dead letters that no operator has replayed or purged."""
        return self.filter(state=RunState.DLQ, resolved_at=None)

    def moving(self) -> Self:
        """Released and open, and not only waiting: their occurrences need a slot."""
        return self.filter(state__in=RUN_MOVING, available_at__isnull=False, parked_at=None)

    def unsent(self, before: datetime) -> Self:
        """Released for work, but no broker has confirmed the message."""
        released = self.filter(state=RunState.SCHEDULED, dispatched_at=None, available_at__lte=before)
        return released.filter(parked_at=None)

    def unclaimed(self, before: datetime) -> Self:
        """The broker accepted the message, and no worker has claimed the run."""
        return self.filter(state=RunState.SCHEDULED, dispatched_at__lte=before, parked_at=None)

    def never_claimed(self, now: datetime) -> Self:
        """Released longer ago than their dispatch_timeout, and not waiting for a slot."""
        released = self.filter(state=RunState.SCHEDULED, dispatch_timeout__isnull=False)
        waited = {"available_at__lte": now - F("dispatch_timeout"), "occurrence__slot_wanted_at": None}
        return released.filter(**waited)

    def retry_due(self, now: datetime) -> Self:
        return self.filter(state=RunState.RETRY, available_at__lte=now, parked_at=None)

    def expired(self, now: datetime) -> Self:
        """Held by a worker that has not renewed its lease."""
        return self.filter(state__in=RUN_HELD, lease_until__lte=now)

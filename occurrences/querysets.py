"""Questions about the tables of the ledger: conditions with a name, and ids as one parameter. None writes.

The lookup `id__any=ids` is one array parameter on PostgreSQL, and a plain `IN` elsewhere. A thousand ids as
`IN` are a thousand parameters for Django to place, psycopg to quote and PostgreSQL to parse: 5 ms a list,
where the array takes 1 ms. The rows found are the same.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from django.core.exceptions import EmptyResultSet
from django.db import models
from django.db.models import F, FilteredRelation, ForeignKey, Func, Q, TextField, UUIDField
from django.db.models.fields.related_lookups import RelatedIn
from django.db.models.lookups import In

from punctual.occurrences.states import (
    CATCH_UP_CAUSES,
    LIVE_CAUSES,
    OCCURRENCE_ACTIVE,
    RUN_HELD,
    RUN_MOVING,
    OccurrenceState,
    RunState,
)

if TYPE_CHECKING:
    from punctual.occurrences.models import Cursor, Occurrence, TaskRun  # noqa: F401 - named in the bases


class CursorQuerySet(models.QuerySet["Cursor"]):
    def due(self, now: datetime) -> Self:
        """Jobs that must be planned."""
        return self.filter(plan_at__lte=now)

    def catch_up_due(self, now: datetime) -> Self:
        """Jobs of which a recovered, replayed or backfilled occurrence may start."""
        return self.filter(catch_up_at__lte=now)


class OccurrenceQuerySet(models.QuerySet["Occurrence"]):
    def due(self, now: datetime) -> Self:
        """Pending, and the start time has come; catch-up has its own line."""
        live = {"cause__in": LIVE_CAUSES, "run_at__lte": now}
        return self.filter(state=OccurrenceState.PENDING, **live)

    def catching_up(self) -> Self:
        """Recovered, replayed or backfilled, and not started."""
        return self.filter(state=OccurrenceState.PENDING, cause__in=CATCH_UP_CAUSES)

    def timely(self, now: datetime) -> Self:
        return self.filter(Q(late_at__isnull=True) | Q(late_at__gt=now))

    def with_planned_version(self) -> Self:
        """Each with `planned_version`, the version of its job that it was planned with."""
        version = FilteredRelation("job__versions", condition=Q(job__versions__number=F("job_version")))
        return self.annotate(planned_version=version)

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


# -- lists of ids ----------------------------------------------------------------------------------------


class Ids:
    """UUIDs or their texts. Not a tuple: Django would search one, item by item, for expressions."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.items = tuple(items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)  # for `IN`


class _Array:
    rhs: Any

    def get_prep_lookup(self) -> Ids:
        return self.rhs if isinstance(self.rhs, Ids) else Ids(self.rhs)

    def as_postgresql(self: Any, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        if not self.rhs.items:
            raise EmptyResultSet
        column, params = self.process_lhs(compiler, connection)
        array = "{" + ",".join(map(str, self.rhs.items)) + "}"
        return f"{column} = ANY(%s::uuid[])", [*params, array]


@UUIDField.register_lookup
class AnyId(_Array, In):
    """`id__any`: a table's own key."""

    lookup_name = "any"


@ForeignKey.register_lookup
class AnyRelated(_Array, RelatedIn):
    """`job__any`: a foreign key."""

    lookup_name = "any"


class IdText(Func):
    """An id as the text of a UUID, whatever type the database stores."""

    output_field = TextField()
    template = "(%(expressions)s)::text"

    def as_sqlite(self, compiler: Any, connection: Any, **extra_context: Any) -> Any:  # noqa: ARG002 - Django's
        column, params = compiler.compile(self.source_expressions[0])
        parts = [f"substr({column}, {start}, {length})" for start, length in HEX_GROUPS]
        return " || '-' || ".join(parts), [*params] * len(HEX_GROUPS)


HEX_GROUPS = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))  # start and length of each group in 32 digits

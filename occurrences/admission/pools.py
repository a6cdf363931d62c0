"""Count the free slots of pools under the lock of their rows (OCC-6).

Taken slots are counted from active rows and never stored: a dead worker's slot becomes free with its
occurrence, and no counter can drift. The lock is taken after the cursors, everywhere, and held to the end of
the transaction that opens occurrences.
"""

from collections.abc import Collection

from django.db.models import Count

from punctual.occurrences.models import Occurrence, Pool
from punctual.occurrences.states import Reason

DEFAULT_SIZE = 50


def free_slots(names: Collection[str]) -> dict[str, int]:
    """Lock the pools and return their free slots. Call inside the transaction that takes them."""
    pools = _lock_pools(names)
    if missing := sorted(set(names) - {pool.name for pool in pools}):
        # Definitions name pools; a new one is created here. The operator may resize it at any time.
        Pool.objects.bulk_create(
            (Pool(name=name, size=DEFAULT_SIZE) for name in missing), ignore_conflicts=True
        )
        pools = _lock_pools(names)
    taken_slots = _taken_slots(names)
    return {pool.name: max(pool.size - taken_slots.get(pool.name, 0), 0) for pool in pools}


def estimate_free_slots(names: Collection[str]) -> dict[str, int]:
    """Free slots read without locks: a hint where to look."""
    if not names:
        return {}
    sizes = dict(Pool.objects.filter(name__in=names).values_list("name", "size"))
    taken_slots = _taken_slots(names)
    return {name: max(sizes.get(name, DEFAULT_SIZE) - taken_slots.get(name, 0), 0) for name in names}


def pools_with_free_slots(names: Collection[str]) -> set[str]:
    return {name for name, slots in estimate_free_slots(names).items() if slots}


def pools_with_queue(names: Collection[str]) -> set[str]:
    """Pools in which occurrences wait for a slot: newcomers must not overtake them."""
    waiting = Occurrence.objects.waiting().filter(pool__in=names, reason=Reason.POOL)
    return set(waiting.order_by().values_list("pool", flat=True).distinct())


def _taken_slots(names: Collection[str]) -> dict[str, int]:
    active = Occurrence.objects.active().filter(pool__in=names).values("pool")
    return {row["pool"]: row["taken"] for row in active.annotate(taken=Count("pool")).order_by()}


def _lock_pools(names: Collection[str]) -> list[Pool]:
    rows = Pool.objects.filter(name__in=names).order_by("name")
    return list(rows.select_for_update(no_key=True))

"""Pool names → free slots, under the pool's row lock (OCC-6).

Taken slots are counted from active rows, never kept as a number: a dead worker's slot comes back with
its occurrence, and nothing can drift. The lock is taken after cursors, everywhere, and held to the
end of the transaction that opens occurrences.
"""

from collections.abc import Collection

from django.db.models import Count

from occurrences.models import Occurrence, Pool

DEFAULT_SIZE = 50


def free_slots(names: Collection[str]) -> dict[str, int]:
    """Slots left in each pool; call inside the transaction that will take them."""
    pools = _locked(names)
    if missing := sorted(set(names) - {pool.name for pool in pools}):
        # A pool first heard of in a definition; the operator may resize it at any time.
        Pool.objects.bulk_create(
            (Pool(name=name, size=DEFAULT_SIZE) for name in missing), ignore_conflicts=True
        )
        pools = _locked(names)
    taken = _taken(names)
    return {pool.name: max(pool.size - taken.get(pool.name, 0), 0) for pool in pools}


def room(names: Collection[str]) -> dict[str, int]:
    """Slots that seem to be free; a hint read without locks, for choosing where to look."""
    if not names:
        return {}
    sizes = dict(Pool.objects.filter(name__in=names).values_list("name", "size"))
    taken = _taken(names)
    return {name: max(sizes.get(name, DEFAULT_SIZE) - taken.get(name, 0), 0) for name in names}


def with_room(names: Collection[str]) -> set[str]:
    return {name for name, slots in room(names).items() if slots}


def with_lines(names: Collection[str]) -> set[str]:
    """Pools in which somebody already waits for a slot: newcomers must not overtake."""
    waiting = Occurrence.objects.waiting().filter(pool__in=names, reason="pool")
    return set(waiting.order_by().values_list("pool", flat=True).distinct())


def _taken(names: Collection[str]) -> dict[str, int]:
    active = Occurrence.objects.active().filter(pool__in=names).values("pool")
    return {row["pool"]: row["taken"] for row in active.annotate(taken=Count("pool")).order_by()}


def _locked(names: Collection[str]) -> list[Pool]:
    rows = Pool.objects.filter(name__in=names).order_by("name")
    return list(rows.select_for_update(no_key=True))

"""Count what is left for new starts: free slots of pools (OCC-6), and starts under a schedule's `max`.

Taken slots are counted from the rows that hold one and never stored: a dead worker's slot becomes free with
its occurrence, and no counter can drift. The lock of a pool is held to the end of the transaction that opens
occurrences. Starts are counted in the cursor, which that transaction holds too.

With `max_active` the slots of all pools are bounded together; the lock of the default pool protects the sum.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from django.db.models import Case, Count, F, Value, When

from punctual.conf import current_settings
from punctual.jobs.config.cascade import Config
from punctual.jobs.errors import PunctualError
from punctual.jobs.job_schedule import schedule_of
from punctual.jobs.models import Job
from punctual.occurrences.admission.candidates import Due
from punctual.occurrences.engines.current import engine
from punctual.occurrences.models import Cause, Cursor, Occurrence, Pool
from punctual.occurrences.querysets import Ids
from punctual.occurrences.states import Reason
from punctual.schedules import Expression, Schedule, ScheduleError

DEFAULT_SIZE = 50
DEFAULT_POOL = Config().pool
PLATFORM = ""  # stands for all pools together where slots are counted; no pool has an empty name
COUNTED_CAUSES = (Cause.SCHEDULE, Cause.RECOVERY)  # `max` does not count manual runs, replays and backfills

# -- slots of pools ---------------------------------------------------------------------------------------


def free_slots(names: Collection[str], *, wait: bool = True) -> dict[str, int]:
    """Lock the pools and return their free slots, with those of the platform if it has a limit.

    Call inside the transaction that takes them. `wait=False` leaves out pools that another process locks.
    """
    limit = current_settings().max_active
    names = {*names, DEFAULT_POOL} if limit else names
    sizes = engine().lock_pools(names, wait=wait)
    if len(sizes) < len(names) and (missing := set(names) - _existing_pools(names)):
        # Definitions name pools; a new one is created here. The operator may resize it at any time.
        Pool.objects.bulk_create(
            (Pool(name=name, size=DEFAULT_SIZE) for name in sorted(missing)), ignore_conflicts=True
        )
        sizes = engine().lock_pools(names, wait=wait)
    if limit and DEFAULT_POOL not in sizes:
        return {}  # another process counts the slots of the platform
    return _free(sizes, limit)


def _existing_pools(names: Collection[str]) -> set[str]:
    return set(Pool.objects.filter(name__in=names).values_list("name", flat=True))


def take_slot(free: dict[str, int], pool: str) -> Reason | None:
    """Take one of the free slots; otherwise say what is full. A pool that is not named has no limit."""
    if free.get(pool, 1) < 1:
        return Reason.POOL
    if free.get(PLATFORM, 1) < 1:
        return Reason.MAX_ACTIVE
    for name in (pool, PLATFORM):
        if name in free:
            free[name] -= 1
    return None


def estimate_free_slots(names: Collection[str]) -> dict[str, int]:
    """Free slots read without locks: a hint where to look."""
    if not names:
        return {}
    sizes = dict(Pool.objects.filter(name__in=names).values_list("name", "size"))
    free = _free({name: sizes.get(name, DEFAULT_SIZE) for name in names}, current_settings().max_active)
    left = free.pop(PLATFORM, None)
    return free if left is None else {name: min(slots, left) for name, slots in free.items()}


def pools_with_free_slots(names: Collection[str]) -> set[str]:
    return {name for name, slots in estimate_free_slots(names).items() if slots}


def pools_with_queue(names: Collection[str]) -> set[str]:
    """Pools in which occurrences wait for a slot: newcomers must not overtake them. PLATFORM: some wait
    because of its limit."""
    queued = Occurrence.objects.waiting().filter(pool__in=names, reason=Reason.POOL).order_by()
    wanting = Occurrence.objects.wanting_slots().filter(pool__in=names).order_by()
    pools = set(queued.values_list("pool", flat=True).union(wanting.values_list("pool", flat=True)))
    if current_settings().max_active and _waits_for_platform():
        pools.add(PLATFORM)
    return pools


def _waits_for_platform() -> bool:
    queued = Occurrence.objects.waiting().filter(reason=Reason.MAX_ACTIVE)
    return queued.exists() or Occurrence.objects.wanting_slots().exists()


def affected_pools(pools: Collection[str]) -> Collection[str]:
    """The pools in which something may start when a slot of one of these becomes free."""
    if not current_settings().max_active:
        return pools
    waiting = Occurrence.objects.waiting().order_by().values_list("pool", flat=True)
    wanting = Occurrence.objects.wanting_slots().order_by().values_list("pool", flat=True)
    return {*pools, *waiting.union(wanting)}


def _free(sizes: Mapping[str, int], limit: int | None) -> dict[str, int]:
    """The free slots of pools of these sizes, and of the platform if it has a limit."""
    holding = Occurrence.objects.holding_slots()
    holding = holding if limit else holding.filter(pool__in=sizes)
    counts = holding.order_by().values_list("pool").annotate(Count("pool"))
    taken: Counter[str] = Counter(dict(counts))
    free = {name: max(size - taken[name], 0) for name, size in sizes.items()}
    return free | {PLATFORM: max(limit - taken.total(), 0)} if limit else free


# -- starts of a job --------------------------------------------------------------------------------------


def starts_left(schedule: Schedule, starts: int) -> int | None:
    """How many more starts `max` allows; None: any number."""
    limit = schedule.options.max if isinstance(schedule, Expression) else None
    return None if limit is None else max(limit - starts, 0)


def starts_left_by_job(rows: Iterable[Due], starts: dict[str, int]) -> dict[str, int]:
    """Only jobs with a `max`; `starts` comes from their locked cursors."""
    # A schedule with the option contains its name, so the many others need no parsing.
    jobs = {row.job_id for row in rows if "max" in row.schedule.lower()}
    left: dict[str, int] = {}
    for job in Job.objects.filter(id__any=jobs) if jobs else ():
        try:
            count = starts_left(schedule_of(job), starts[str(job.id)])
        except (ScheduleError, PunctualError):
            continue  # planning records what is wrong with it
        if count is not None:
            left[str(job.id)] = count
    return left


def count_starts(opened: Iterable[Due]) -> None:
    """Add these starts to the cursors, which the caller holds; one statement for all of them."""
    starts = Counter(row.job_id for row in opened if row.cause in COUNTED_CAUSES)
    if starts:
        more = Case(*(When(job_id=job, then=Value(count)) for job, count in starts.items()))
        Cursor.objects.filter(job__any=Ids(starts)).update(starts=F("starts") + more)

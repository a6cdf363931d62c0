"""Count what is left for new starts: free slots of pools (OCC-6), and starts under a schedule's `max`.

Taken slots are counted from active rows and never stored: a dead worker's slot becomes free with its
occurrence, and no counter can drift. The lock of a pool is held to the end of the transaction that opens
occurrences. Starts are counted in the cursor, which that transaction holds too.
"""

from collections import Counter
from collections.abc import Collection, Iterable

from django.db.models import Case, Count, F, Value, When

from punctual.jobs.errors import PunctualError
from punctual.jobs.job_schedule import schedule_of
from punctual.jobs.models import Job
from punctual.occurrences.admission.candidates import Due
from punctual.occurrences.database.arrays import Ids
from punctual.occurrences.engines.current import engine
from punctual.occurrences.models import Cause, Cursor, Occurrence, Pool
from punctual.occurrences.states import Reason
from punctual.schedules import Expression, Schedule, ScheduleError

DEFAULT_SIZE = 50
COUNTED_CAUSES = (Cause.SCHEDULE, Cause.RECOVERY)  # `max` does not count manual runs, replays and backfills

# -- slots of pools ---------------------------------------------------------------------------------------


def free_slots(names: Collection[str], *, wait: bool = True) -> dict[str, int]:
    """Lock the pools and return their free slots. Call inside the transaction that takes them.

    `wait=False` leaves out pools that another process has locked.
    """
    sizes = engine().lock_pools(names, wait=wait)
    if len(sizes) < len(names) and (missing := set(names) - _existing_pools(names)):
        # Definitions name pools; a new one is created here. The operator may resize it at any time.
        Pool.objects.bulk_create(
            (Pool(name=name, size=DEFAULT_SIZE) for name in sorted(missing)), ignore_conflicts=True
        )
        sizes = engine().lock_pools(names, wait=wait)
    taken_slots = _taken_slots(sizes)
    return {name: max(size - taken_slots.get(name, 0), 0) for name, size in sizes.items()}


def _existing_pools(names: Collection[str]) -> set[str]:
    return set(Pool.objects.filter(name__in=names).values_list("name", flat=True))


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

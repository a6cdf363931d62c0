"""A month of ticks with ten thousand jobs, in virtual time: flat memory, constant queries, a whole ledger.

Nothing here waits: the clock jumps to the next moment at which a row is due, which is where a beat's
sleep ends; a beat's idle ticks in between find nothing and are left out. So that the month has a
bounded number of such moments, schedules name every sixth hour of their zone: some 400 moments, with
one to many occurrences in each. Most jobs are monthly, some weekly, a few daily, in four time zones,
in a month in which clocks change on both sides of the Atlantic.

Nobody works here: that what is fired is worked off once is proved elsewhere. Each day the operator
cancels what is under way, through the door made for it, and what is over is checked off and deleted,
as retention would.
"""

import gc
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from celery import current_app
from django.db import connection
from django.db.models import Min

from beat import tick
from execution.cancel import cancel
from jobs.models import Job, Task
from jobs.registry import TaskFunction, registry
from jobs.scheduling import schedule_of
from occurrences.models import Cursor, Occurrence, Pool
from occurrences.states import OccurrenceState
from tests.occurrences.ledger import a_job, a_task

JOBS = 10_000
START = datetime(2026, 3, 1, tzinfo=UTC)
END = datetime(2026, 4, 1, tzinfo=UTC)
DAY = timedelta(days=1)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo")
MEGABYTE = 2**20

Entry = tuple[str, datetime, str]


def schedule(number: int) -> str:
    """Spread over the month by the number alone; hours move slowest, so that no two kinds move together."""
    zone, hour = ZONES[number % 4], number // 28 % 4 * 6
    if number % 100 == 0:
        return f"TZ={zone} 0 {hour} * * *"
    if number % 100 < 4:
        return f"TZ={zone} 0 {hour} * * {number % 7}"
    return f"TZ={zone} 0 {hour} {number % 28 + 1} * *"


def noop(ctx: object) -> None: ...


@pytest.fixture
def fleet(transactional_db: None) -> Iterator[list[Job]]:
    with registry.isolated():
        registry.add_function(TaskFunction("month.step", noop))
        Pool.objects.create(name="default", size=JOBS)
        jobs = [
            a_job(f"job-{number:05d}", START, schedule=schedule(number), origin="file")
            for number in range(JOBS)
        ]
        Job.objects.bulk_create(jobs, batch_size=1000)
        Task.objects.bulk_create((a_task(job, function="month.step") for job in jobs), batch_size=1000)
        yield jobs
    forget_messages()


def next_due() -> datetime | None:
    pending = Occurrence.objects.filter(state=OccurrenceState.PENDING).aggregate(at=Min("run_at"))["at"]
    plans = Cursor.objects.aggregate(at=Min("plan_at"))["at"]
    return min((at for at in (pending, plans) if at is not None), default=None)


def counted(step: Callable[[], object]) -> int:
    statements = 0

    def count(execute: Any, *args: Any) -> Any:
        nonlocal statements
        statements += 1
        return execute(*args)

    with connection.execute_wrapper(count):
        step()
    return statements


def check_off(seen: Counter[Entry], now: datetime) -> None:
    """End what is under way, remember what is over, and delete it."""
    cancel(list(Occurrence.objects.active().values_list("id", flat=True)), reason="evening", now=now)
    over = Occurrence.objects.filter(finished_at__isnull=False)
    seen.update(over.order_by().values_list("job__name", "scheduled_for", "state"))
    over.delete()
    forget_messages()


def forget_messages() -> None:
    with current_app.connection_for_write() as connected:
        channel: Any = connected.default_channel
        channel.queue_purge("default")


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.req("OCC-2")
@pytest.mark.req("OCC-5")
@pytest.mark.postgres
@pytest.mark.timeout(900)  # a minute on an idle machine
def test_a_month_of_ticks_equals_the_oracle_with_flat_memory_and_constant_queries(
    fleet: list[Job], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "punctual")  # pytest keeps every record, and that is no flat memory
    seen: Counter[Entry] = Counter()
    queries: dict[int, set[int]] = {}  # occurrences fired in a tick → statements it took
    memory: list[int] = []
    day = START
    tick.run_once(START)  # plans all of them
    while (now := next_due()) is not None and now < END:
        cost = counted(partial(tick.run_once, now))
        queries.setdefault(Occurrence.objects.filter(fired_at=now).count(), set()).add(cost)
        if now - day >= DAY:
            check_off(seen, now)
            memory.append(resident())
            day += DAY
    check_off(seen, END)

    expected = Counter(
        (job.name, instant, "canceled")
        for job in fleet
        for instant in schedule_of(job).between(START, END - timedelta(seconds=1))
    )
    assert sum(expected.values()) > JOBS
    assert seen == expected
    assert Occurrence.objects.filter(state=OccurrenceState.PENDING).count() == JOBS, "one ahead of each"
    assert max(queries) > 20 * min(queries), "some ticks had much more to do than others"
    # Whether messages wait that nobody takes, and more of them than a page, costs the sweep one each.
    taken = set.union(*queries.values())
    assert max(taken) - min(taken) <= 2, f"statements of a tick by what it fired: {queries}"
    assert max(memory[5:]) - min(memory[:5]) < 16 * MEGABYTE, [size // MEGABYTE for size in memory]

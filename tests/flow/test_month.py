"""A month of ticks with thousands of jobs, in virtual time: flat memory, constant queries, a complete ledger.

The clock jumps to the next time at which a row is due, where a beat's sleep ends; idle ticks in between are
left out. To bound the number of these times, schedules name every sixth hour of their zone: about 400 times,
with one to many occurrences each. Most jobs are monthly, some weekly, a few daily, in four time zones, in a
month in which clocks change in Europe and in America.

No worker runs: other tests prove that what is fired runs once. Each day the operator cancels active
occurrences, and finished ones are compared and deleted, as retention would do.
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

from punctual.beat import tick
from punctual.execution.ending.cancel import cancel
from punctual.jobs.declaration.registry import TaskFunction, registry
from punctual.jobs.job_schedule import schedule_of
from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Cursor, Occurrence, Pool
from punctual.occurrences.states import OccurrenceState, Reason
from tests.occurrences.factories import a_job, a_task

START = datetime(2026, 3, 1, tzinfo=UTC)
END = datetime(2026, 4, 1, tzinfo=UTC)
DAY = timedelta(days=1)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo")
MEGABYTE = 2**20

Entry = tuple[str, datetime, str]


def schedule(number: int) -> str:
    """Spread over the month by the number; hours vary slowest, so that no two kinds vary together."""
    zone, hour = ZONES[number % 4], number // 28 % 4 * 6
    if number % 100 == 0:
        return f"TZ={zone} 0 {hour} * * *"
    if number % 100 < 4:
        return f"TZ={zone} 0 {hour} * * {number % 7}"
    return f"TZ={zone} 0 {hour} {number % 28 + 1} * *"


def noop(ctx: object) -> None: ...


@pytest.fixture(params=[2_500, pytest.param(10_000, marks=pytest.mark.soak)])
def fleet(transactional_db: None, request: pytest.FixtureRequest) -> Iterator[list[Job]]:
    count: int = request.param
    with registry.isolated():
        registry.add_function(TaskFunction("month.step", noop))
        Pool.objects.create(name="default", size=count)
        jobs = [
            a_job(f"job-{number:05d}", START, schedule=schedule(number), origin="file")
            for number in range(count)
        ]
        Job.objects.bulk_create(jobs, batch_size=1000)
        Task.objects.bulk_create((a_task(job, function="month.step") for job in jobs), batch_size=1000)
        yield jobs
    drop_messages()


def next_due() -> datetime | None:
    pending = Occurrence.objects.filter(state=OccurrenceState.PENDING).aggregate(at=Min("run_at"))["at"]
    plans = Cursor.objects.aggregate(at=Min("plan_at"))["at"]
    return min((at for at in (pending, plans) if at is not None), default=None)


def count_statements(step: Callable[[], object]) -> int:
    statements = 0

    def count(execute: Any, *args: Any) -> Any:
        nonlocal statements
        statements += 1
        return execute(*args)

    with connection.execute_wrapper(count):
        step()
    return statements


def check_off(seen: Counter[Entry], now: datetime) -> None:
    """End active occurrences, record finished ones in `seen`, and delete them."""
    cancel(list(Occurrence.objects.active().values_list("id", flat=True)), reason=Reason.OPERATOR, now=now)
    over = Occurrence.objects.filter(finished_at__isnull=False)
    seen.update(over.order_by().values_list("job__name", "scheduled_for", "state"))
    over.delete()
    drop_messages()


def drop_messages() -> None:
    with current_app.connection_for_write() as connected:
        channel: Any = connected.default_channel
        channel.queue_purge("default")


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.req("OCC-2")
@pytest.mark.req("OCC-5")
@pytest.mark.postgres
@pytest.mark.timeout(900)  # ten thousand jobs take a minute on an idle machine
def test_a_month_of_ticks_equals_the_oracle_with_flat_memory_and_constant_queries(
    fleet: list[Job], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "punctual")  # pytest keeps every record, so memory would grow
    seen: Counter[Entry] = Counter()
    queries: dict[int, set[int]] = {}  # statements by the number of occurrences fired in a tick
    memory: list[int] = []
    day = START
    tick.run_once(START)  # plans all of them
    while (now := next_due()) is not None and now < END:
        cost = count_statements(partial(tick.run_once, now))
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
    assert sum(expected.values()) > len(fleet)
    assert seen == expected
    assert Occurrence.objects.filter(state=OccurrenceState.PENDING).count() == len(fleet), "one ahead of each"
    assert max(queries) > 20 * min(queries), "some ticks had much more to do than others"
    # Waiting messages, and more of them than one page, cost the sweep one statement each.
    taken = set.union(*queries.values())
    assert max(taken) - min(taken) <= 2, f"statements of a tick by what it fired: {queries}"
    assert max(memory[5:]) - min(memory[:5]) < 16 * MEGABYTE, [size // MEGABYTE for size in memory]

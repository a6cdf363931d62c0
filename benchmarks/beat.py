"""Measure how fast and how late a beat sends due runs, compared with django-celery-beat and redbeat.

    python benchmarks/beat.py [--sizes 1000,10000,100000,1000000] [--due 1000] [--peers 10000] [--seconds 8]

Starts its own PostgreSQL and Redis-compatible server. For each size: the time of a tick with DUE occurrences
due (fired, runs inserted, next occurrence planned, message published and confirmed), the start-up time and
the memory of a beat process, the lateness of messages with DUE occurrences due in one second, and the time
until an edit by plain SQL takes effect. Then, separately, the tick with tasks measured as short, many per
message; the peers send one message per task. Peers are measured with `--peers` jobs, for some seconds each.
Nothing is asserted.
"""

# ruff: noqa: PLC0415 -- Django's models can be imported once its settings are complete
from __future__ import annotations

import argparse
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median, quantiles
from typing import Any

# Without this, the folder of this script would come first on the path.
ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)

from benchmarks.job_fleet import Fleet, empty, execute  # noqa: E402
from benchmarks.stack import stack  # noqa: E402
from tests.guardian import Guardian  # noqa: E402

TIMEOUT = 60.0
TICKS = 5  # the median is reported
EDITS = 5  # the median is reported
# A million jobs with their occurrences are 1.5 GB; PostgreSQL's default is to keep 128 MB in memory.
BUFFERS = "1GB"
LEAD = timedelta(
    seconds=3
)  # time between the insert of occurrences and their due time, when measuring lateness


def purge() -> int:
    from celery import current_app

    with current_app.connection_for_write() as broker:
        channel: Any = broker.default_channel
        return int(channel.queue_purge("default"))


def tick_seconds(fleet: Fleet, *, messages: int) -> float:
    """The median time of ticks with all jobs due, in this process, configured like a beat."""
    from punctual.beat import tick
    from punctual.beat.postgres import Session
    from punctual.jobs.clock import database_now

    gc.collect()
    gc.freeze()
    Session().configure()
    taken = []
    for _ in range(TICKS + 1):
        fleet.make_due(database_now())
        started = time.perf_counter()
        ticked = tick.run_once(database_now(), sweeping=False, clock=database_now)
        taken.append(time.perf_counter() - started)
        sent = purge()
        if not ticked.fired == ticked.planned == len(fleet.due) or sent != messages:
            raise RuntimeError(f"{ticked}, {sent} messages")
    return median(taken[1:])  # the first tick fills caches


def bundled_seconds(fleet: Fleet) -> float:
    """The same with every task measured as short, so that a message carries many runs."""
    from punctual.execution.broker.bundling import MAX_RUNS

    execute(
        "INSERT INTO punctual_pace (task_id, p95, samples, measured_at)"
        " SELECT id, 0.0001, 50, now() FROM punctual_task WHERE job_id = ANY(%s::uuid[])",
        [fleet.due],
    )
    try:
        return tick_seconds(fleet, messages=len(fleet.due) // MAX_RUNS)
    finally:
        execute("DELETE FROM punctual_pace")


@contextmanager
def beat(
    folder: Path, guardian: Guardian, *words: str, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    log = folder / "beat.log"
    command = [sys.executable, "-m", "celery", *(words or ("-A", "scheduler_project", "beat"))]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*command, "--pidfile=", "--loglevel", "WARNING"],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    guardian.watch(process.pid)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        guardian.forget(process.pid)


def wait_for(condition: Callable[[], object], every: float = 0.005) -> float:
    """Wait until the condition is true; return the seconds."""
    started = time.perf_counter()
    while not condition():
        if time.perf_counter() - started > TIMEOUT:
            raise TimeoutError(f"not within {TIMEOUT:g} s")
        time.sleep(every)
    return time.perf_counter() - started


def megabytes(process: subprocess.Popen[bytes]) -> float:
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure_process(fleet: Fleet, folder: Path, guardian: Guardian) -> dict[str, Any]:
    from punctual.jobs.clock import database_now

    execute("DELETE FROM punctual_process WHERE kind = 'beat'")
    fleet.make_due(fleet.far)
    with beat(folder, guardian) as process:
        start_up = wait_for(
            lambda: execute("SELECT 1 FROM punctual_process WHERE kind = 'beat' AND seen_at > started_at")
        )
        at = (database_now() + LEAD).replace(microsecond=0)
        fleet.make_due(at)
        execute("SELECT pg_notify('punctual', '')")
        count = "SELECT count(*) FROM punctual_taskrun WHERE dispatched_at IS NOT NULL"
        wait_for(lambda: execute(count) == [(len(fleet.due),)], every=0.2)
        late = execute("SELECT extract(epoch FROM dispatched_at - %s) FROM punctual_taskrun", [at])
        effect = edit_to_effect(fleet)
        memory = megabytes(process)
    purge()
    lateness = sorted(float(value) for (value,) in late)
    p99 = quantiles(lateness, n=100)[98]
    return {"start_up": start_up, "p50": median(lateness), "p99": p99, "edit": effect, "memory": memory}


def edit_to_effect(fleet: Fleet) -> float:
    """Seconds from an UPDATE until an occurrence of the new schedule is planned; the median."""
    taken = []
    for number in range(EDITS):
        id_, schedule = fleet.ids[-1 - number], f"{number} 3 1 1 *"
        execute("UPDATE punctual_job SET schedule = %s WHERE id = %s", [schedule, id_])
        new = "SELECT 1 FROM punctual_occurrence WHERE job_id = %s AND extract(month FROM scheduled_for) = 1"
        taken.append(wait_for(lambda: execute(f"{new} AND state = 'pending'", [id_]), every=0.002))  # noqa: B023 - read at once
    return median(taken)


# -- peers -----------------------------------------------------------------------------------------


def count_messages(queue: str, seconds: float) -> tuple[int, float]:
    """Count the messages sent to a queue within some seconds after the first."""
    from celery import current_app

    with current_app.connection_for_read() as broker:
        client = broker.default_channel.client  # type: ignore[attr-defined] # a Redis channel
        wait_for(lambda: client.llen(queue), every=0.02)
        begun = time.perf_counter()
        time.sleep(seconds)
        return int(client.llen(queue)), time.perf_counter() - begun


def django_celery_beat(jobs: int, folder: Path, guardian: Guardian, seconds: float) -> float:
    """Messages per second of django-celery-beat's own scheduler, with every entry due."""
    from django.utils import timezone
    from django_celery_beat.models import CrontabSchedule, PeriodicTask, PeriodicTasks

    PeriodicTask.objects.all().delete()
    hourly, _ = CrontabSchedule.objects.get_or_create(minute="0", hour="*")
    long_ago = timezone.now() - timedelta(days=1)
    PeriodicTask.objects.bulk_create(
        (
            PeriodicTask(name=f"p{n}", task="nothing", queue="peer", crontab=hourly, last_run_at=long_ago)
            for n in range(jobs)
        ),
        batch_size=1000,
    )
    PeriodicTasks.update_changed()
    scheduler = "django_celery_beat.schedulers:DatabaseScheduler"
    with beat(folder, guardian, "-A", "scheduler_project", "beat", "--scheduler", scheduler):
        count, taken = count_messages("peer", seconds)
    PeriodicTask.objects.all().delete()
    return count / taken


def redbeat(jobs: int, folder: Path, guardian: Guardian, seconds: float) -> float:
    """Messages per second of celery-redbeat, whose entries are stored in Redis."""
    from celery import Celery
    from celery.schedules import crontab
    from redbeat import RedBeatSchedulerEntry

    url = os.environ["BROKER_URL"].replace("redis+socket://", "unix://")
    (folder / "redbeat_bench.py").write_text(
        "from celery import Celery\n"
        f"app = Celery('bench', broker={os.environ['BROKER_URL']!r})\n"
        f"app.conf.redbeat_redis_url = {url!r}\n"
        "app.conf.beat_max_loop_interval = 1\n"
    )
    app = Celery("bench", broker=os.environ["BROKER_URL"], set_as_current=False)
    app.conf.redbeat_redis_url = url
    long_ago = datetime.fromtimestamp(time.time() - 86_400, tz=app.timezone)
    for number in range(jobs):
        entry = RedBeatSchedulerEntry(
            f"p{number}", "nothing", crontab(minute=0), options={"queue": "redbeat"}, app=app
        )
        entry.last_run_at = long_ago
        entry.save()
    words = ("-A", "redbeat_bench", "beat", "--scheduler", "redbeat.RedBeatScheduler")
    with beat(folder, guardian, *words, PYTHONPATH=str(folder)):
        count, taken = count_messages("redbeat", seconds)
    return count / taken


# -- the report ------------------------------------------------------------------------------------


def measure(options: argparse.Namespace, folder: Path, guardian: Guardian) -> None:
    sizes = [int(size) for size in options.sizes.split(",")]
    rates: dict[int, float] = {}
    bundled: dict[int, float] = {}
    print(f"{'jobs':>10}      tick  a second  start-up   memory  late p50      p99     edit")
    for size in sizes:
        fleet = Fleet(size, min(options.due, size))
        fleet.insert()
        seconds = tick_seconds(fleet, messages=len(fleet.due))
        rates[size] = len(fleet.due) / seconds
        live = measure_process(fleet, folder, guardian)
        print(
            f"{size:10,} {seconds * 1000:6.0f} ms {rates[size]:9,.0f} {live['start_up']:7.2f} s"
            f" {live['memory']:5.0f} MB {live['p50'] * 1000:6.0f} ms {live['p99'] * 1000:5.0f} ms"
            f" {live['edit'] * 1000:5.0f} ms",
            flush=True,
        )
        bundled[size] = len(fleet.due) / bundled_seconds(fleet)
    empty()
    figures = ", ".join(f"{rate:,.0f} with {size:,} jobs" for size, rate in bundled.items())
    print(f"tasks measured as short, many per message: {figures} a second")
    print_ratios(options, folder, guardian, rates)


def print_ratios(
    options: argparse.Namespace, folder: Path, guardian: Guardian, rates: dict[int, float]
) -> None:
    first, last = min(rates), max(rates)
    print(f"a tick with {last:,} jobs takes {rates[first] / rates[last]:.2f} times as long as with {first:,}")
    if not options.peers:
        return
    ours = rates.get(options.peers, rates[last])
    for name, peer in (("django-celery-beat", django_celery_beat), ("redbeat", redbeat)):
        theirs = peer(options.peers, folder, guardian, options.seconds)
        text = f"{name} with {options.peers:,} jobs: {theirs:,.0f} a second"
        print(f"{text}; ours {ours:,.0f}, {ours / max(theirs, 0.1):,.0f} times as many", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sizes", default="1000,10000,100000,1000000", help="numbers of jobs")
    parser.add_argument("--due", type=int, default=1000, help="occurrences due at once")
    parser.add_argument(
        "--peers", type=int, default=10_000, help="number of jobs for the peers; 0: skip them"
    )
    parser.add_argument("--seconds", type=float, default=8, help="how long each peer is watched")
    return parser.parse_args()


if __name__ == "__main__":
    options = arguments()
    with stack(postgres={"shared_buffers": BUFFERS}) as servers:
        measure(options, servers.folder, servers.guardian)

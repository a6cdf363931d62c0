"""Jobs in -> how fast a beat emits what is due, and how late; beside django-celery-beat and redbeat.

    python benchmarks/beat.py [--sizes 1000,10000,100000,1000000] [--due 1000] [--peers 10000] [--seconds 8]

Starts its own PostgreSQL and Redis-compatible server. For each size: the time of a tick with DUE occurrences
due (fired, runs inserted, next occurrence planned, message published and confirmed), the time a beat process
takes to start, its memory, how late messages are accepted with DUE due in one second, and how soon an edit by
plain SQL takes effect. Then, apart, the tick with tasks that have proven short, many to a message:
that is how such tasks are emitted, but one message for each is what the peers do. Peers are measured at
`--peers` jobs, for some seconds each. Nothing is asserted.
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

# Run as a script, this file would hide the package of the same name.
ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)

from benchmarks.filling import Fleet, empty, execute  # noqa: E402
from benchmarks.stack import stack  # noqa: E402
from tests.guardian import Guardian  # noqa: E402

PATIENCE = 60.0
TICKS = 5  # the middle one is told
EDITS = 5  # likewise
# A million jobs with their occurrences are 1.5 GB; PostgreSQL's default is to keep 128 MB in memory.
BUFFERS = "1GB"
LEAD = timedelta(seconds=3)  # the occurrences of the lateness part are due so long after they are written


def purge() -> int:
    from celery import current_app

    with current_app.connection_for_write() as broker:
        channel: Any = broker.default_channel
        return int(channel.queue_purge("default"))


def tick_seconds(fleet: Fleet, *, messages: int) -> float:
    """The median of some ticks with everything due, in this process, set up as a beat sets itself up."""
    from beat import tick
    from beat.session import Session
    from jobs.clock import database_now

    gc.collect()
    gc.freeze()
    Session().bound_silence()
    taken = []
    for _ in range(TICKS + 1):
        fleet.arm(database_now())
        started = time.perf_counter()
        ticked = tick.run_once(database_now(), sweeping=False, clock=database_now)
        taken.append(time.perf_counter() - started)
        sent = purge()
        if not ticked.fired == ticked.planned == len(fleet.due) or sent != messages:
            raise RuntimeError(f"{ticked}, {sent} messages")
    return median(taken[1:])  # the first one fills caches


def bundled_seconds(fleet: Fleet) -> float:
    """The same once every task has proven short, so that a message carries many of them."""
    from execution.bundling import MOST

    execute(
        "INSERT INTO execution_pace (task_id, p95, samples, measured_at)"
        " SELECT id, 0.0001, 50, now() FROM jobs_task WHERE job_id = ANY(%s::uuid[])",
        [fleet.due],
    )
    try:
        return tick_seconds(fleet, messages=len(fleet.due) // MOST)
    finally:
        execute("DELETE FROM execution_pace")


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


def wait_for(question: Callable[[], object], every: float = 0.005) -> float:
    """Seconds until the answer is yes."""
    started = time.perf_counter()
    while not question():
        if time.perf_counter() - started > PATIENCE:
            raise TimeoutError(f"not within {PATIENCE:g} s")
        time.sleep(every)
    return time.perf_counter() - started


def megabytes(process: subprocess.Popen[bytes]) -> float:
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def with_a_beat(fleet: Fleet, folder: Path, guardian: Guardian) -> dict[str, Any]:
    from jobs.clock import database_now

    execute("DELETE FROM beat_beat")
    fleet.arm(fleet.far)
    with beat(folder, guardian) as process:
        start_up = wait_for(lambda: execute("SELECT 1 FROM beat_beat WHERE ticked_at > started_at"))
        at = (database_now() + LEAD).replace(microsecond=0)
        fleet.arm(at)
        execute("SELECT pg_notify('punctual', '')")
        count = "SELECT count(*) FROM occurrences_taskrun WHERE dispatched_at IS NOT NULL"
        wait_for(lambda: execute(count) == [(len(fleet.due),)], every=0.2)
        late = execute("SELECT extract(epoch FROM dispatched_at - %s) FROM occurrences_taskrun", [at])
        effect = edit_to_effect(fleet)
        memory = megabytes(process)
    purge()
    lateness = sorted(float(value) for (value,) in late)
    p99 = quantiles(lateness, n=100)[98]
    return {"start_up": start_up, "p50": median(lateness), "p99": p99, "edit": effect, "memory": memory}


def edit_to_effect(fleet: Fleet) -> float:
    """From a plain UPDATE to the next occurrence being the new schedule's; the median of five."""
    taken = []
    for number in range(EDITS):
        id_, schedule = fleet.ids[-1 - number], f"{number} 3 1 1 *"
        execute("UPDATE jobs_job SET schedule = %s WHERE id = %s", [schedule, id_])
        new = (
            "SELECT 1 FROM occurrences_occurrence WHERE job_id = %s AND extract(month FROM scheduled_for) = 1"
        )
        taken.append(wait_for(lambda: execute(f"{new} AND state = 'pending'", [id_]), every=0.002))  # noqa: B023 - read at once
    return median(taken)


# -- peers -----------------------------------------------------------------------------------------


def emitted(queue: str, seconds: float) -> tuple[int, float]:
    """Messages that come into a queue within some seconds of the first."""
    from celery import current_app

    with current_app.connection_for_read() as broker:
        client = broker.default_channel.client  # type: ignore[attr-defined] # a Redis channel
        wait_for(lambda: client.llen(queue), every=0.02)
        begun = time.perf_counter()
        time.sleep(seconds)
        return int(client.llen(queue)), time.perf_counter() - begun


def django_celery_beat(jobs: int, folder: Path, guardian: Guardian, seconds: float) -> float:
    """Every entry due at once: how many a second its own scheduler sends."""
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
        count, taken = emitted("peer", seconds)
    PeriodicTask.objects.all().delete()
    return count / taken


def redbeat(jobs: int, folder: Path, guardian: Guardian, seconds: float) -> float:
    """The same for celery-redbeat, whose entries live in Redis."""
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
        count, taken = emitted("redbeat", seconds)
    return count / taken


# -- the report ------------------------------------------------------------------------------------


def measure(options: argparse.Namespace, folder: Path, guardian: Guardian) -> None:
    sizes = [int(size) for size in options.sizes.split(",")]
    rates: dict[int, float] = {}
    bundled: dict[int, float] = {}
    print(f"{'jobs':>10}      tick  a second  start-up   memory  late p50      p99     edit")
    for size in sizes:
        fleet = Fleet(size, min(options.due, size))
        fleet.make()
        seconds = tick_seconds(fleet, messages=len(fleet.due))
        rates[size] = len(fleet.due) / seconds
        live = with_a_beat(fleet, folder, guardian)
        print(
            f"{size:10,} {seconds * 1000:6.0f} ms {rates[size]:9,.0f} {live['start_up']:7.2f} s"
            f" {live['memory']:5.0f} MB {live['p50'] * 1000:6.0f} ms {live['p99'] * 1000:5.0f} ms"
            f" {live['edit'] * 1000:5.0f} ms",
            flush=True,
        )
        bundled[size] = len(fleet.due) / bundled_seconds(fleet)
    empty()
    told = ", ".join(f"{rate:,.0f} with {size:,} jobs" for size, rate in bundled.items())
    print(f"of tasks that have proven short, many to a message: {told} a second")
    ratios(options, folder, guardian, rates)


def ratios(options: argparse.Namespace, folder: Path, guardian: Guardian, rates: dict[int, float]) -> None:
    first, last = min(rates), max(rates)
    print(f"a tick with {last:,} jobs takes {rates[first] / rates[last]:.2f} times as long as with {first:,}")
    if not options.peers:
        return
    ours = rates.get(options.peers, rates[last])
    for name, peer in (("django-celery-beat", django_celery_beat), ("redbeat", redbeat)):
        theirs = peer(options.peers, folder, guardian, options.seconds)
        told = f"{name} with {options.peers:,} jobs: {theirs:,.0f} a second"
        print(f"{told}; ours {ours:,.0f}, {ours / max(theirs, 0.1):,.0f} times as many", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sizes", default="1000,10000,100000,1000000", help="numbers of jobs")
    parser.add_argument("--due", type=int, default=1000, help="occurrences due at once")
    parser.add_argument("--peers", type=int, default=10_000, help="jobs the peers get; 0: leave them out")
    parser.add_argument("--seconds", type=float, default=8, help="how long each peer is watched")
    return parser.parse_args()


if __name__ == "__main__":
    options = arguments()
    with stack(postgres={"shared_buffers": BUFFERS}) as servers:
        measure(options, servers.folder, servers.guardian)

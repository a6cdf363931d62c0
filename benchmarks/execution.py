"""Measure throughput and start latency of no-op tasks, compared with bare Celery and other job systems.

    python benchmarks/execution.py [--runs N] [PART ...]

Starts its own PostgreSQL and Redis-compatible server. Each system processes a prepared queue with two worker
processes; the rate is measured after a twentieth of the queue is done, so that the start-up of workers does
not count. Nothing is asserted; every figure is one run.
"""

# ruff: noqa: PLC0415 -- Django's models can be imported once its settings are complete
from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Any

# Without this, the folder of this script would come first on the path.
ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)

from benchmarks.stack import stack  # noqa: E402
from tests.guardian import Guardian  # noqa: E402

CONCURRENCY = 2
TIMEOUT = 120.0
SERVERS: dict[str, list[int]] = {"worker": [], "postgres": [], "redis": []}  # process ids
COST: dict[str, float] = {}  # of the last measurement: milliseconds of processor time per item
LATENCIES = 200  # starts on an idle system


@contextmanager
def program(
    guardian: Guardian, log: Path, *words: str, env: Mapping[str, str] | None = None
) -> Iterator[None]:
    with log.open("ab") as output:
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    guardian.watch(process.pid)
    SERVERS["worker"].append(process.pid)
    try:
        yield
        if process.poll() is not None:
            raise RuntimeError(log.read_text()[-2000:])
    finally:
        SERVERS["worker"].remove(process.pid)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        guardian.forget(process.pid)


def celery_worker(app: str, queue: str) -> tuple[str, ...]:
    options = ("--concurrency", str(CONCURRENCY), "-Q", queue, "--without-mingle", "--without-gossip")
    return (sys.executable, "-m", "celery", "-A", app, "worker", "--loglevel", "WARNING", *options)


def rate(done: Callable[[], int], total: int) -> float:
    """Items per second, after the first twentieth; the processor time per item is stored in `COST`."""
    from benchmarks.workload.processor_time import seconds_used

    began: tuple[float, int] | None = None
    spent = dict.fromkeys(SERVERS, 0.0)
    deadline = time.monotonic() + TIMEOUT
    while (count := done()) < total:
        if began is None and count >= total / 20:
            began = time.monotonic(), count
            spent = {name: seconds_used(*pids) for name, pids in SERVERS.items()}
        if time.monotonic() > deadline:
            raise TimeoutError(f"{count} of {total} after {TIMEOUT:g} s")
        time.sleep(0.02)
    first, already = began or (time.monotonic(), 0)
    COST.update(
        {name: 1000 * (seconds_used(*SERVERS[name]) - spent[name]) / (total - already) for name in SERVERS}
    )
    return (total - already) / max(time.monotonic() - first, 1e-9)


class Punctual:
    """Punctual: occurrences fired and sent by a tick, then a worker."""

    def __init__(self, folder: Path, guardian: Guardian) -> None:
        self.folder, self.guardian = folder, guardian

    def worker(self) -> Any:
        return program(
            self.guardian, self.folder / "punctual.log", *celery_worker("scheduler_project", "default")
        )

    def load(self, name: str, occurrences: int) -> None:
        """Insert due occurrences of the named job, or of jobs with that first word; fire and send them."""
        from django.db.models import Q

        from punctual.beat.tick import run_once
        from punctual.jobs.clock import database_now
        from punctual.jobs.config.cascade import job_config
        from punctual.jobs.models import Job
        from punctual.occurrences.models import Cause, Occurrence
        from punctual.occurrences.planning.new_rows import new_occurrence

        now = database_now()
        named = Q(name=name) | Q(name__startswith=f"{name} ")
        jobs = list(Job.objects.filter(named).order_by("name"))
        rows = []
        for number in range(occurrences):
            job = jobs[number % len(jobs)]
            at = now - timedelta(microseconds=number)
            row = new_occurrence(
                job,
                job_config(job),
                scheduled_for=at,
                run_at=at,
                now=now,
                cause=Cause.MANUAL,
                args={},
                overrides={},
            )
            rows.append(row)
        Occurrence.objects.bulk_create(rows, batch_size=1000)
        run_once(now, sweeping=False)

    def active(self) -> int:
        from punctual.occurrences.models import Occurrence

        return Occurrence.objects.active().count()

    def throughput(self, name: str, occurrences: int) -> float:
        self.load(name, occurrences)
        with self.worker():
            return rate(lambda: occurrences - self.active(), occurrences)

    def mark_short(self, name: str) -> None:
        """Mark the tasks of a job as short, as they are after their first dozen runs."""
        from punctual.execution.models import Pace
        from punctual.jobs.clock import database_now
        from punctual.jobs.models import Task

        Pace.objects.bulk_create(
            (
                Pace(task=task, p95=0.001, samples=50, measured_at=database_now())
                for task in Task.objects.filter(job__name=name)
            ),
            update_conflicts=True,
            unique_fields=["task"],
            update_fields=["p95"],
        )

    def latencies(self) -> list[float]:
        from punctual import trigger
        from punctual.beat.tick import run_once
        from punctual.execution.broker.dispatch import dispatch
        from punctual.jobs.clock import database_now
        from punctual.occurrences.admission.firing import fire_due

        run_once(database_now(), sweeping=False)  # plans all jobs; unplanned jobs are not fired

        def start() -> float:
            trigger("note")
            fired = fire_due(database_now())
            began = time.time()
            dispatch(fired.ready, now=database_now())  # as in a tick
            return began

        with self.worker():
            return measure_latencies(start)


class Bare:
    """Bare Celery, prefork, in the same Django project."""

    def __init__(self, folder: Path, guardian: Guardian) -> None:
        self.folder, self.guardian = folder, guardian

    def worker(self) -> Any:
        words = celery_worker("benchmarks.workload.celery_tasks", "bare")
        return program(self.guardian, self.folder / "bare.log", *words)

    def throughput(self, tasks: int) -> float:
        from benchmarks.workload.celery_tasks import app, noop
        from benchmarks.workload.start_times import server

        server().flushdb()
        with app.producer_or_acquire() as producer:
            for _ in range(tasks):
                noop.apply_async(producer=producer)
        before = server().dbsize()
        with self.worker():
            return rate(lambda: server().dbsize() - before, tasks)

    def chords(self, size: int, count: int) -> float:
        from celery import chord, group

        from benchmarks.workload.celery_tasks import count_results, noop
        from benchmarks.workload.start_times import server

        server().flushdb()
        results = [
            chord(group(noop.si() for _ in range(size)), count_results.s()).apply_async()
            for _ in range(count)
        ]
        assert len(results) == count
        total = (size + 1) * count  # the callbacks come last, so members are counted as well
        with self.worker():
            return rate(lambda: len(server().keys("celery-task-meta-*")), total) / (size + 1)

    def latencies(self) -> list[float]:
        from benchmarks.workload.celery_tasks import note

        def start() -> float:
            began = time.time()
            note.delay()
            return began

        with self.worker():
            return measure_latencies(start)


def measure_latencies(start: Callable[[], float]) -> list[float]:
    """Milliseconds from sending to the start of the function, one at a time, after a warm-up."""
    from benchmarks.workload.start_times import KEY, server

    server().delete(KEY)
    latencies = []
    for _ in range(LATENCIES + 20):
        began = start()
        answer = server().blpop([KEY], timeout=TIMEOUT)
        assert isinstance(answer, (tuple, list))
        latencies.append(1000 * (float(answer[1]) - began))
        time.sleep(0.01)  # let the worker finish, so that the system is idle
    return latencies[20:]


def print_result(what: str, value: float, unit: str, base: float | None = None) -> None:
    ratio = f"  {value / base:6.2f} × bare Celery" if base else ""
    cost = "  " + ", ".join(f"{name} {ms:.2f}" for name, ms in COST.items()) + " ms" if COST else ""
    print(f"{what:44} {value:10,.1f} {unit}{ratio}{cost}", flush=True)
    COST.clear()


def median(values: list[float]) -> float:
    return quantiles(values, n=100)[49]


def measure(folder: Path, guardian: Guardian, runs: int, parts: set[str]) -> None:
    punctual, bare = Punctual(folder, guardian), Bare(folder, guardian)
    base = 0.0
    if "bare" in parts:
        base = bare.throughput(runs)
        print_result("bare Celery, results", base, "tasks/s", base)
    if "alone" in parts:
        print_result("Punctual, one run a message", punctual.throughput("alone", runs), "runs/s", base)
    if "bundles" in parts:
        punctual.throughput("short", 500)  # the first runs are not bundled
        print_result("Punctual, bundles", punctual.throughput("short", 4 * runs), "runs/s", base)
    if "peers" in parts:
        measure_peers(folder, guardian, runs, base)
    if "chords" in parts:
        from benchmarks.workload.jobs import FANS

        for size in FANS:
            count = max(10, runs // size // 2)
            theirs = bare.chords(size, count)
            print_result(f"bare Celery, chords of {size}", theirs, "chords/s", theirs)
            punctual.throughput(f"fan {size}", 3)
            print_result(
                f"Punctual, occurrences of {size} parallel tasks",
                punctual.throughput(f"fan {size}", count),
                "occ/s",
                theirs,
            )
            punctual.mark_short(f"fan {size}")
            print_result(
                "the same in bundles", punctual.throughput(f"fan {size}", 2 * count), "occ/s", theirs
            )
    if "latency" in parts:
        theirs_late, ours_late = bare.latencies(), punctual.latencies()
        for name, at in (("p50", 49), ("p99", 98)):
            theirs, ours = quantiles(theirs_late, n=100)[at], quantiles(ours_late, n=100)[at]
            print_result(f"bare Celery, start latency {name}", theirs, "ms", theirs)
            print_result(f"Punctual, start latency {name}", ours, "ms", theirs)


def measure_peers(folder: Path, guardian: Guardian, runs: int, base: float) -> None:
    from benchmarks.workload.peers import PEERS

    for name, throughput in PEERS.items():
        run = partial(program, guardian, folder / f"{name}.log")
        try:
            print_result(name, throughput(run, rate, runs), "tasks/s", base)
        except (TimeoutError, RuntimeError, subprocess.CalledProcessError) as error:
            print(f"{name:44} {error}", flush=True)


PARTS = ("bare", "alone", "bundles", "peers", "chords", "latency")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}")
    parser.add_argument("--runs", type=int, default=2_000)
    options = parser.parse_args()
    # Events are off, as in bare Celery by default.
    with stack(PUNCTUAL_APPS="benchmarks.workload", TASK_EVENTS="off") as (folder, guardian, postgres, redis):
        SERVERS["postgres"], SERVERS["redis"] = [postgres], [redis]
        from punctual.jobs.clock import database_now
        from punctual.jobs.declaration.sync import sync
        from punctual.occurrences.models import Pool

        sync(database_now())
        Pool.objects.update_or_create(name="benchmark", defaults={"size": 10**6})
        try:
            measure(folder, guardian, options.runs, set(options.parts or PARTS))
        except Exception:
            for log in folder.glob("*.log"):
                print(log.name, log.read_text(errors="replace")[-1500:])
            raise


if __name__ == "__main__":
    main()

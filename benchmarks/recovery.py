"""Measure the first tick after an outage of a month or a year, for every recovery strategy; and pruning.

The job runs each minute. The baseline is a bare `bulk_create` of one row per missed instant.

    python benchmarks/recovery.py [--bare-year] [--only-pruning]

Starts its own PostgreSQL and Redis-compatible server. Each figure is one run in its own process; its memory
is the peak of resident memory above the value before the run. The database is emptied between runs. With
`execute_all` a tick plans only the first portion. The bare inserts of a year take minutes and two gigabytes;
`--bare-year` includes them.
"""

# ruff: noqa: PLC0415 -- Django's models can be imported once its settings are complete
from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

# Without this, the folder of this script would come first on the path.
ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)

from benchmarks.stack import stack  # noqa: E402

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
BEGIN = datetime(2026, 1, 5, 11, 59, 30, tzinfo=UTC)
SPANS = {"month": 30 * DAY, "year": 365 * DAY}
STRATEGIES: dict[str, dict[str, Any]] = {
    "execute_all": {},
    "execute_last": {},
    "mark_as_missed": {},
    "bounded_window": {"recovery_max_occurrences": 100},
    "compressed": {},
}
KEPT, STEPS, ROWS = 20_000, 20, 250  # occurrences to keep, measured steps, rows per step


# -- in a child process --------------------------------------------------------------------------------


def memory(name: str) -> float:
    """Megabytes of resident memory: VmRSS now, VmHWM the peak."""
    (kilobytes,) = re.findall(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(kilobytes) / 1024


def measure_call(call: Callable[[], object]) -> dict[str, Any]:
    from django.db import connection

    from punctual.occurrences.models import Occurrence

    sent = 0

    def count(execute: Any, *args: Any) -> Any:
        nonlocal sent
        sent += 1
        return execute(*args)

    before = Occurrence.objects.count()
    with connection.execute_wrapper(count):
        resident, started, computing = memory("VmRSS"), perf_counter(), process_time()
        call()
        seconds, computing = perf_counter() - started, process_time() - computing
    peak, rows = memory("VmHWM") - resident, Occurrence.objects.count() - before
    return {"seconds": seconds, "computing": computing, "statements": sent, "peak": peak, "rows": rows}


def a_job(name: str, schedule: str, **config: Any) -> Any:
    from punctual.jobs.definition.document import Definition, TaskDefinition
    from punctual.jobs.models import Job, Origin
    from punctual.jobs.store.definitions import Change, store

    steps = (TaskDefinition("step", "punctual.beat.periodic_tasks.importer.send"),)
    definition = Definition(name, schedule, config, {}, steps, enabled=True)
    store([definition], Change(Origin.FILE, "benchmark", BEGIN))
    return Job.objects.get(name=name)


def measure_recovery(strategy: str, span: str) -> dict[str, Any]:
    """Measure the first tick after the outage."""
    from punctual.beat.tick import run_once

    a_job("job", "* * * * *", recovery=strategy, **STRATEGIES[strategy])
    run_once(BEGIN)
    return measure_call(partial(run_once, BEGIN + SPANS[span]))


def measure_bare(span: str) -> dict[str, Any]:
    """Measure the insert of one row per missed instant, and nothing else."""
    from punctual.jobs.config.cascade import job_config
    from punctual.jobs.job_schedule import schedule_of
    from punctual.occurrences.models import Occurrence
    from punctual.occurrences.planning.new_rows import new_occurrence

    job = a_job("job", "* * * * *")
    config, schedule, now = job_config(job), schedule_of(job), BEGIN + SPANS[span]

    def insert() -> None:
        owed = schedule.between(BEGIN, now)
        rows = [new_occurrence(job, config, scheduled_for=at, run_at=at, now=now) for at in owed]
        Occurrence.objects.bulk_create(rows, batch_size=1000)

    return measure_call(insert)


def measure_pruning(jobs: str) -> dict[str, Any]:
    """Measure pruning steps of 250 old occurrences, each with a run and an attempt."""
    from django.db import connection

    from punctual.occurrences.models import Attempt, Occurrence, TaskRun
    from punctual.occurrences.states import AttemptState, OccurrenceState, RunState
    from punctual.recovery.models import PruneRound
    from punctual.recovery.pruning import prune_step
    from tests.occurrences.factories import a_run, an_attempt, an_occurrence

    count = int(jobs)
    fleet = [a_job(f"job {n}", "0 0 1 1 *", retention="1d") for n in range(count)]
    now = BEGIN + 365 * DAY
    old = [now - 300 * DAY + n * MINUTE for n in range(STEPS * ROWS // count)]
    new = [now - DAY + n * timedelta(seconds=0.5) for n in range(KEPT // count)]
    for job in fleet:
        task = job.tasks.get()
        occurrences = [
            an_occurrence(job, at, OccurrenceState.COMPLETED, finalized_at=at) for at in (*old, *new)
        ]
        Occurrence.objects.bulk_create(occurrences, batch_size=1000)
        runs = TaskRun.objects.bulk_create(
            [a_run(row, task, RunState.SUCCESS) for row in occurrences], batch_size=1000
        )
        Attempt.objects.bulk_create([an_attempt(run, AttemptState.SUCCESS) for run in runs], batch_size=1000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    prune_step(now - 400 * DAY)  # creates the row of the round
    PruneRound.objects.update(due_at=now)
    steps = [measure_call(partial(prune_step, now, rows=ROWS)) for _ in range(STEPS)]
    assert all(step["rows"] == -ROWS for step in steps), steps
    seconds = [step["seconds"] for step in steps]
    computing = median(step["computing"] for step in steps)
    return steps[-1] | {"seconds": median(seconds), "least": min(seconds), "computing": computing}


WORK: dict[str, Callable[..., dict[str, Any]]] = {
    "recovery": measure_recovery,
    "bare": measure_bare,
    "pruning": measure_pruning,
}


def child(work: str, *words: str) -> None:
    import django

    django.setup()
    from django.core.management import call_command

    call_command("flush", interactive=False, verbosity=0)
    print(json.dumps(WORK[work](*words)))


# -- the table ---------------------------------------------------------------------------------------------


def cost(*words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, "--child", *words], capture_output=True, text=True, check=False, cwd=ROOT
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def print_line(what: str, figures: dict[str, Any], base: dict[str, Any] | None) -> None:
    times = (
        f"{base['seconds'] / figures['seconds']:7.0f} times as fast" if base and figures is not base else ""
    )
    seconds = f"{figures['seconds']:8.2f} s ({figures['computing']:6.2f} s computing)"
    sent = f"{figures['statements']:6,} statements"
    print(
        f"{what:18} {seconds} {sent} {figures['peak']:7.1f} MB {figures['rows']:8,} rows {times}", flush=True
    )


def recovery(words: list[str]) -> None:
    for span, length in SPANS.items():
        print(f"{length // MINUTE:,} instants, a {span}")
        base = cost("bare", span) if span == "month" or "--bare-year" in words else None
        if base:
            print_line("bare bulk_create", base, base)
        for strategy in STRATEGIES:
            print_line(strategy, cost("recovery", strategy, span), base)


def pruning() -> None:
    print(f"a step of pruning: {ROWS} occurrences, {STEPS} steps; {KEPT:,} occurrences stay")
    for jobs in ("1", "250"):
        figures = cost("pruning", jobs)
        median_, least, computing = (figures[name] * 1000 for name in ("seconds", "least", "computing"))
        text = f"median {median_:4.0f} ms, least {least:4.0f} ms, {computing:4.0f} ms computing"
        print(f"{jobs:>3} jobs {text} {figures['statements']:4} statements", flush=True)


def main(words: list[str]) -> None:
    if "--only-pruning" not in words:
        recovery(words)
    pruning()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    else:
        with stack(LOG_LEVEL="ERROR"):
            main(sys.argv[1:])

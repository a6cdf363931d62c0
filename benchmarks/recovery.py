"""A job that runs each minute, nobody there for a month or a year → what the first tick afterwards costs, for
every strategy, beside a bare `bulk_create` of a row for each instant; and what a step of pruning costs.

    python benchmarks/recovery.py [--bare-year] [--only-pruning]

Starts its own PostgreSQL and Redis-compatible server. Each figure is one run in a process of its own, so that
its peak of memory is its own: resident memory at its highest, above what it was before. The database is the
same and is emptied in between. With `execute_all` a tick plans the first portion of what runs. The bare
inserts of a year take minutes and two gigabytes, and are left out unless asked for.
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

# Run as a script, this file would hide the package of the same name.
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
KEPT, STEPS, ROWS = 20_000, 20, 250  # occurrences that stay, steps measured, rows of a step


# -- in a process of its own ---------------------------------------------------------------------------


def memory(name: str) -> float:
    """Megabytes: VmRSS is what is resident now, VmHWM what was at most."""
    (kilobytes,) = re.findall(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(kilobytes) / 1024


def measured(call: Callable[[], object]) -> dict[str, Any]:
    from django.db import connection

    from occurrences.models import Occurrence

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
    from jobs.definition import Definition, TaskDefinition
    from jobs.models import Job, Origin
    from jobs.store import Change, store

    steps = (TaskDefinition("step", "beat.importing.send"),)
    wanted = Definition(name, schedule, config, {}, steps, enabled=True)
    store([wanted], Change(Origin.FILE, "benchmark", BEGIN))
    return Job.objects.get(name=name)


def recovered(strategy: str, span: str) -> dict[str, Any]:
    """The first tick of a beat that comes back."""
    from beat.tick import run_once

    a_job("job", "* * * * *", recovery=strategy, **STRATEGIES[strategy])
    run_once(BEGIN)
    return measured(partial(run_once, BEGIN + SPANS[span]))


def bare(span: str) -> dict[str, Any]:
    """A row for each instant the job owed, and nothing else: no strategy, no message, no range."""
    from jobs.scheduling import job_config, schedule_of
    from occurrences.materialize import new_occurrence
    from occurrences.models import Occurrence

    job = a_job("job", "* * * * *")
    config, schedule, now = job_config(job), schedule_of(job), BEGIN + SPANS[span]

    def insert() -> None:
        owed = schedule.between(BEGIN, now)
        rows = [new_occurrence(job, config, scheduled_for=at, run_at=at, now=now) for at in owed]
        Occurrence.objects.bulk_create(rows, batch_size=1000)

    return measured(insert)


def pruned(jobs: str) -> dict[str, Any]:
    """Steps of 250 old occurrences with a run and an attempt each, in a ledger that keeps many more."""
    from django.db import connection

    from occurrences.models import Attempt, Occurrence, TaskRun
    from occurrences.states import AttemptState, OccurrenceState, RunState
    from recovery.models import PruneRound
    from recovery.pruning import prune_some
    from tests.occurrences.ledger import a_run, an_attempt, an_occurrence

    count = int(jobs)
    fleet = [a_job(f"job {n}", "0 0 1 1 *", retention="1d") for n in range(count)]
    now = BEGIN + 365 * DAY
    old = [now - 300 * DAY + n * MINUTE for n in range(STEPS * ROWS // count)]
    new = [now - DAY + n * timedelta(seconds=0.5) for n in range(KEPT // count)]
    for job in fleet:
        task = job.tasks.get()
        found = [an_occurrence(job, at, OccurrenceState.COMPLETED, finalized_at=at) for at in (*old, *new)]
        Occurrence.objects.bulk_create(found, batch_size=1000)
        runs = TaskRun.objects.bulk_create(
            [a_run(row, task, RunState.SUCCESS) for row in found], batch_size=1000
        )
        Attempt.objects.bulk_create([an_attempt(run, AttemptState.SUCCESS) for run in runs], batch_size=1000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    prune_some(now - 400 * DAY)  # the place is there
    PruneRound.objects.update(due_at=now)
    steps = [measured(partial(prune_some, now, rows=ROWS)) for _ in range(STEPS)]
    assert all(step["rows"] == -ROWS for step in steps), steps
    seconds = [step["seconds"] for step in steps]
    computing = median(step["computing"] for step in steps)
    return steps[-1] | {"seconds": median(seconds), "least": min(seconds), "computing": computing}


WORK: dict[str, Callable[..., dict[str, Any]]] = {"recovered": recovered, "bare": bare, "pruned": pruned}


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


def line(what: str, found: dict[str, Any], base: dict[str, Any] | None) -> None:
    times = f"{base['seconds'] / found['seconds']:7.0f} times as fast" if base and found is not base else ""
    seconds = f"{found['seconds']:8.2f} s ({found['computing']:6.2f} s computing)"
    sent = f"{found['statements']:6,} statements"
    print(f"{what:18} {seconds} {sent} {found['peak']:7.1f} MB {found['rows']:8,} rows {times}", flush=True)


def recovery(words: list[str]) -> None:
    for span, length in SPANS.items():
        print(f"{length // MINUTE:,} instants, a {span}")
        base = cost("bare", span) if span == "month" or "--bare-year" in words else None
        if base:
            line("bare bulk_create", base, base)
        for strategy in STRATEGIES:
            line(strategy, cost("recovered", strategy, span), base)


def pruning() -> None:
    print(f"a step of pruning: {ROWS} occurrences, {STEPS} steps; {KEPT:,} occurrences stay")
    for jobs in ("1", "250"):
        found = cost("pruned", jobs)
        median_, least, computing = (found[name] * 1000 for name in ("seconds", "least", "computing"))
        figures = f"median {median_:4.0f} ms, least {least:4.0f} ms, {computing:4.0f} ms computing"
        print(f"{jobs:>3} jobs {figures} {found['statements']:4} statements", flush=True)


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

"""Measure what an idle platform costs: statements, transactions and WAL a second, and processor time.

    python benchmarks/idle.py [--seconds 20] [--beats 2] [--workers 2] [--jobs 100]

Starts its own PostgreSQL, which logs every statement, a Redis-compatible server, beats and workers. The jobs
are due once a year. Prints the sums and the most frequent statements. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

import psycopg  # noqa: E402

from benchmarks.stack import stack  # noqa: E402
from tests.guardian import Guardian  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
STATEMENT = re.compile(rb"LOG:  (?:statement|execute [^:]*): (.*)")
SETTLE_SECONDS = 15.0  # until the processes have started and planned
SHOWN = 20
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


def start(guardian: Guardian, folder: Path, name: str, *arguments: str) -> int:
    with (folder / f"{name}.log").open("wb") as log:
        command = [sys.executable, "-m", "celery", "-A", "scheduler_project", *arguments]
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
    guardian.watch(process.pid)
    return process.pid


def insert_jobs(count: int) -> None:
    from django.utils import timezone  # noqa: PLC0415

    from punctual.jobs.models import Job, Task  # noqa: PLC0415
    from tests.occurrences.factories import a_job, a_task  # noqa: PLC0415 - Django is set up only now

    now = timezone.now()
    jobs = [a_job(f"job-{number}", now, schedule="0 0 1 1 *", origin="file") for number in range(count)]
    Job.objects.bulk_create(jobs)
    Task.objects.bulk_create(a_task(job, "step", function="nowhere.step") for job in jobs)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


def measure(log: Path, pids: list[int], seconds: float) -> None:
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as session:

        def wal() -> int:
            row = session.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone()
            return int(row[0]) if row else 0

        begin, before, used = log.stat().st_size, wal(), sum(map(cpu_seconds, pids))
        time.sleep(seconds)
        text, after = log.read_bytes()[begin:], wal()
    used = sum(map(cpu_seconds, pids)) - used
    statements = Counter(
        re.sub(rb"[0-9a-f'-]{8,}|\d+", b"?", found)[:150] for found in STATEMENT.findall(text)
    )
    rate, kilobytes = statements.total() / seconds, (after - before) / seconds / 1000
    print(f"{rate:.1f} statements/s, {kilobytes:.2f} kB/s of WAL")
    print(f"{100 * used / seconds:.1f} % of a core in beats and workers")
    for statement, count in statements.most_common(SHOWN):
        print(f"{count / seconds:6.2f}/s  {statement.decode(errors='replace')}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("seconds", 20), ("beats", 2), ("workers", 2), ("jobs", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with stack(postgres={"log_statement": "all"}) as servers:
        insert_jobs(options.jobs)
        pids = [
            start(servers.guardian, servers.folder, f"beat{n}", "beat", "--pidfile=")
            for n in range(options.beats)
        ]
        for number in range(options.workers):
            name = f"worker{number}"
            arguments = ("worker", "--concurrency", "2", "--hostname", f"{name}@%h")
            pids.append(start(servers.guardian, servers.folder, name, *arguments))
        time.sleep(SETTLE_SECONDS)
        (log,) = servers.folder.rglob("postgres*.log")
        measure(log, pids, options.seconds)


if __name__ == "__main__":
    main()

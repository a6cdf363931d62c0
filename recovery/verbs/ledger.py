"""Verbs about the ledger as a whole: verify."""

import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

from jobs import control
from jobs.clock import database_now
from jobs.ids import shown
from jobs.models import Job
from jobs.progress import Progress
from jobs.verbs import Answer, Options, Row, Verb
from recovery.coverage import Difference
from recovery.verbs.reading import optional_instant
from recovery.verify import verify


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--job", help="only this job")
    parser.add_argument("--from", dest="since", metavar="INSTANT", help="from this instant on")
    parser.add_argument("--to", dest="until", metavar="INSTANT", help="up to this instant")


def run(options: Options) -> Answer:
    """Exit code 1 when anything differs."""
    since = optional_instant("--from", options["since"])
    until = optional_instant("--to", options["until"])
    jobs = [control.get(options["job"])] if options["job"] else Job.objects.order_by("name").iterator()
    seen: Counter[str] = Counter()
    bar = Progress(sys.stderr, 1 if options["job"] else Job.objects.count(), "comparing")
    rows = _differences(watched(jobs, bar), database_now(), since, until, seen)
    return Answer(_counted(rows, seen), text, exit_code=lambda: int(bool(seen["differences"])))


def watched(jobs: Iterable[Job], bar: Progress) -> Iterator[Job]:
    for job in jobs:
        yield job
        bar(1)


def _differences(
    jobs: Iterator[Job], now: datetime, since: datetime | None, until: datetime | None, seen: Counter[str]
) -> Iterator[Row]:
    for job in jobs:
        seen["jobs"] += 1
        for difference in verify(job, now=now, since=since, until=until):
            seen["differences"] += 1
            yield row_of(job, difference)


def _counted(rows: Iterator[Row], seen: Counter[str]) -> Iterator[Row]:
    yield from rows
    yield {"jobs": seen["jobs"], "differences": seen["differences"]}


def row_of(job: Job, item: Difference) -> Row:
    return {
        "job": job.name,
        "kind": str(item.kind),
        "from": item.first.isoformat(),
        "to": item.last.isoformat(),
        "count": item.count,
        "occurrence": shown("occ", item.occurrence) if item.occurrence else None,
    }


def text(row: Row) -> str:
    if "kind" not in row:
        return f"{row['jobs']} jobs compared, {row['differences']} differences"
    span = row["from"] if row["from"] == row["to"] else f"{row['from']} … {row['to']}"
    return f"{row['job']}  {row['kind']}  {span}  {row['count']}  {row['occurrence'] or ''}".rstrip()


VERBS = {
    "verify": Verb("verify", "compare the rows with what the schedules and versions owe", run, arguments)
}

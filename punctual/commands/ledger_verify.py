"""`ledger verify`: compare the rows of the ledger with what the schedules require."""

import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

from punctual.commands.arguments import parse_optional_instant
from punctual.commands.progress import Progress
from punctual.commands.verb import Answer, Options, Row, Verb
from punctual.jobs import control
from punctual.jobs.clock import database_now
from punctual.jobs.ids import format_id
from punctual.jobs.models import Job
from punctual.recovery.verification.coverage import Difference
from punctual.recovery.verification.verify import verify


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--job", help="only this job")
    parser.add_argument("--from", dest="since", metavar="INSTANT", help="from this instant on")
    parser.add_argument("--to", dest="until", metavar="INSTANT", help="up to this instant")


def verify_ledger(options: Options) -> Answer:
    """Return every difference, then the totals; the exit code is 1 if there is any difference."""
    since = parse_optional_instant("--from", options["since"])
    until = parse_optional_instant("--to", options["until"])
    jobs = [control.get_job(options["job"])] if options["job"] else Job.objects.order_by("name").iterator()
    totals: Counter[str] = Counter()
    bar = Progress(sys.stderr, 1 if options["job"] else Job.objects.count(), "comparing")
    rows = _differences(_with_progress(jobs, bar), database_now(), since, until, totals)
    return Answer(
        _with_totals(rows, totals), difference_text, exit_code=lambda: int(bool(totals["differences"]))
    )


def _with_progress(jobs: Iterable[Job], bar: Progress) -> Iterator[Job]:
    for job in jobs:
        yield job
        bar(1)


def _differences(
    jobs: Iterator[Job], now: datetime, since: datetime | None, until: datetime | None, totals: Counter[str]
) -> Iterator[Row]:
    for job in jobs:
        totals["jobs"] += 1
        for difference in verify(job, now=now, since=since, until=until):
            totals["differences"] += 1
            yield _difference_row(job, difference)


def _with_totals(rows: Iterator[Row], totals: Counter[str]) -> Iterator[Row]:
    yield from rows
    yield {"jobs": totals["jobs"], "differences": totals["differences"]}


def _difference_row(job: Job, item: Difference) -> Row:
    return {
        "job": job.name,
        "kind": str(item.kind),
        "from": item.first.isoformat(),
        "to": item.last.isoformat(),
        "count": item.count,
        "occurrence": format_id("occ", item.occurrence) if item.occurrence else None,
    }


def difference_text(row: Row) -> str:
    if "kind" not in row:
        return f"{row['jobs']} jobs compared, {row['differences']} differences"
    span = row["from"] if row["from"] == row["to"] else f"{row['from']} … {row['to']}"
    return f"{row['job']}  {row['kind']}  {span}  {row['count']}  {row['occurrence'] or ''}".rstrip()


VERBS = (
    Verb("verify", "compare the rows with what the schedules and versions require", verify_ledger, arguments),
)

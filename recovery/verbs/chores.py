"""Verbs of one word: backfill, prune, recover, reap."""

import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from functools import partial

from jobs import control
from jobs.clock import database_now
from jobs.models import Job
from jobs.progress import Progress
from jobs.verbs import Answer, Options, Row, Verb
from occurrences.materialize import plan_due
from occurrences.models import Cursor, Occurrence
from recovery import sweep
from recovery.audit import Asked
from recovery.backfill import backfill
from recovery.catchup import CaughtUp, catch_up
from recovery.retention import cutoff_of, prunable, prune
from recovery.span import Span
from recovery.verbs.acting import acting
from recovery.verbs.reading import asked, asking, instant


def backfill_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("job", help="the job's name")
    parser.add_argument("--from", dest="since", required=True, metavar="INSTANT", help="first instant")
    parser.add_argument("--to", dest="until", required=True, metavar="INSTANT", help="last instant")
    parser.add_argument("--dry-run", action="store_true", help="only say what it would make")
    asking(parser)


def backfill_one(options: Options) -> Answer:
    span = Span(instant("--from", options["since"]), instant("--to", options["until"]))
    fill = partial(backfill, control.get(options["job"]), span, asked=asked(options), now=database_now())
    # Counted first: what would be refused halfway is refused before anything is written.
    done = fill(dry_run=True)
    if not options["dry_run"]:
        done = fill(progress=Progress(sys.stderr, done.instants, "filling in"))
    told = {"existing_at": [at.isoformat() for at in done.existing_at], "dry_run": options["dry_run"]}
    return Answer([asdict(done) | told], single=True, line=_pairs)


def _pairs(row: Row) -> str:
    return "  ".join(f"{key}={value}" for key, value in row.items())


def prune_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--job", help="only this job")
    acting(parser)


def prune_all(options: Options) -> Answer:
    jobs = [control.get(options["job"])] if options["job"] else Job.objects.order_by("name").iterator()
    rows = _pruned(iter(jobs), database_now(), asked(options), dry_run=options["dry_run"])
    return Answer(rows, _pairs)


def _pruned(jobs: Iterator[Job], now: datetime, by: Asked, *, dry_run: bool) -> Iterator[Row]:
    for job in jobs:
        cutoff = cutoff_of(job, now)
        if cutoff is None:
            continue
        count = prunable(job, cutoff).count()
        if count and not dry_run:
            kept = prune(job, asked=by, now=now, progress=Progress(sys.stderr, count, job.name))
            count = kept.pruned if kept else 0
        if count:
            yield {"job": job.name, "older_than": cutoff.isoformat(), "occurrences": count}


def dry(parser: ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only say how many it would look at")


def recover(options: Options) -> Answer:
    """Plan what is owed and apply the strategies, as every tick does."""
    now = database_now()
    if options["dry_run"]:
        behind, late = Cursor.objects.due(now).count(), Occurrence.objects.due(now).late(now).count()
        return Answer([{"jobs_to_plan": behind, "late": late}], _pairs, single=True)
    planned, absorbed, caught = 0, 0, CaughtUp()
    while (step := plan_due(now)).jobs:
        planned, absorbed = planned + step.instants, absorbed + step.absorbed
    while (found := catch_up(now)) != CaughtUp():
        caught = CaughtUp(
            caught.jobs + found.jobs, caught.recovered + found.recovered, caught.missed + found.missed
        )
        if not found.jobs:
            break
    return Answer([{"planned": planned, "in_ranges": absorbed} | asdict(caught)], _pairs, single=True)


def reap(options: Options) -> Answer:
    """One sweep: expired claims, overdue occurrences, unsent messages, unsettled ones, old rows."""
    step = sweep.outstanding if options["dry_run"] else sweep.run_once
    return Answer([asdict(step(database_now()))], _pairs, single=True)


BACKFILL = Verb("backfill", "", backfill_one, backfill_arguments)
PRUNE = Verb("prune", "", prune_all, prune_arguments)
RECOVER = Verb("recover", "", recover, dry)
REAP = Verb("reap", "", reap, dry)

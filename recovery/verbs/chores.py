"""Verbs of one word: backfill, prune, recover, reap, resend, settle."""

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
from recovery import chores
from recovery.audit import Asked, audited
from recovery.backfill import backfill
from recovery.chores import Chore, perform
from recovery.models import Action
from recovery.oldest import Keeps
from recovery.retention import cutoff_of, prunable, prune_jobs
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
    told = {"job": options["job"]} if options["job"] else {"jobs": "all"}
    rows = _pruned(iter(jobs), database_now(), asked(options), told, dry_run=options["dry_run"])
    return Answer(rows, _pairs)


def _pruned(jobs: Iterator[Job], now: datetime, by: Asked, told: Row, *, dry_run: bool) -> Iterator[Row]:
    """One request, however many jobs."""
    with audited(Action.PRUNE, by, now=now, details=told) as entry:
        for job in jobs:
            cutoff = cutoff_of(job, now)
            if cutoff is None:
                continue
            count = prunable(job, cutoff).count()
            if count and not dry_run:
                bar = Progress(sys.stderr, count, job.name)
                count = prune_jobs([Keeps(job.id, cutoff)], entry=entry, progress=bar).pruned
            if count:
                yield {"job": job.name, "older_than": cutoff.isoformat(), "occurrences": count}


def recover_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--job", help="only this job")
    acting(parser)


def _chore(chore: Chore, label: str, options: Options) -> Answer:
    """Everything that is outstanding, counted first; a broker that refuses is told by the exit code."""
    now, name = database_now(), options.get("job")
    job = control.get(name) if name else None
    found = chore.outstanding(now, job)
    if options["dry_run"]:
        return Answer([found], _pairs, single=True)
    bar = Progress(sys.stderr, sum(found.values()), label)
    told = perform(chore, asked=asked(options), now=now, job=job, progress=bar)
    bar.end()
    refused = {"failed": told.failed} if chore.sends else {}
    closing = REFUSED.format(told.failed) if told.failed else ""
    return Answer([told.done | refused], _pairs, closing, single=True, exit_code=lambda: int(told.failed > 0))


REFUSED = "messages the broker did not take: {:,}; nothing is lost, beats go on trying"
BACKFILL = Verb("backfill", "", backfill_one, backfill_arguments)
PRUNE = Verb("prune", "", prune_all, prune_arguments)
RECOVER = Verb("recover", "", partial(_chore, chores.RECOVER, "catching up"), recover_arguments)
REAP = Verb("reap", "", partial(_chore, chores.REAP, "taking back"), acting)
RESEND = Verb("resend", "", partial(_chore, chores.RESEND, "sending"), acting)
SETTLE = Verb("settle", "", partial(_chore, chores.SETTLE, "asking"), acting)

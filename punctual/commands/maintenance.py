"""`backfill`, `prune`, `recover`, `reap`, `resend`, `settle`."""

import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import datetime
from functools import partial

from punctual.commands.action_runner import add_request
from punctual.commands.arguments import add_requester, parse_instant, requester_of
from punctual.commands.progress import Progress
from punctual.commands.verb import Answer, Options, Row, Verb
from punctual.jobs import control
from punctual.jobs.clock import database_now
from punctual.jobs.models import Job
from punctual.occurrences.engines.contract import Cutoff
from punctual.operations import sweep_runner
from punctual.operations.audit import Entry, audited
from punctual.operations.models import AuditedAction
from punctual.operations.range_actions import backfill_job
from punctual.operations.sweep_runner import Sweep, run_sweep
from punctual.recovery.pruning import prune_jobs
from punctual.recovery.retention import cutoff_of, prunable
from punctual.recovery.time_range import TimeRange


def backfill_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("job", help="the job's name")
    parser.add_argument("--from", dest="since", required=True, metavar="INSTANT", help="first instant")
    parser.add_argument("--to", dest="until", required=True, metavar="INSTANT", help="last instant")
    parser.add_argument("--dry-run", action="store_true", help="only count")
    add_requester(parser)


def backfill_range(options: Options) -> Answer:
    time_range = TimeRange(parse_instant("--from", options["since"]), parse_instant("--to", options["until"]))
    job, now, requester = control.get_job(options["job"]), database_now(), requester_of(options)
    # Counted first: a range that is too long is refused before anything is written.
    filled = backfill_job(job, time_range, requester=requester, now=now, dry_run=True)
    if not options["dry_run"]:
        bar = Progress(sys.stderr, filled.instants, "filling in")
        filled = backfill_job(job, time_range, requester=requester, now=now, progress=bar)
    extra = {"existing_at": [at.isoformat() for at in filled.existing_at], "dry_run": options["dry_run"]}
    return Answer([asdict(filled) | extra], single=True, line=_key_values)


def _key_values(row: Row) -> str:
    return "  ".join(f"{key}={value}" for key, value in row.items())


def prune_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--job", help="only this job")
    add_request(parser)


def prune_occurrences(options: Options) -> Answer:
    """Prune one job or all jobs without a limit, as one request, with a row for each job."""
    jobs = [control.get_job(options["job"])] if options["job"] else Job.objects.order_by("name").iterator()
    details = {"job": options["job"]} if options["job"] else {"jobs": "all"}
    now = database_now()
    entry = audited(AuditedAction.PRUNE, requester_of(options), now=now, details=details)
    return Answer(_prune_each(iter(jobs), now, entry, dry_run=options["dry_run"]), _key_values)


def _prune_each(
    jobs: Iterator[Job], now: datetime, request: AbstractContextManager[Entry], *, dry_run: bool
) -> Iterator[Row]:
    with request as entry:
        for job in jobs:
            cutoff = cutoff_of(job, now)
            if cutoff is None:
                continue
            count = prunable(job, cutoff).count()
            if count and not dry_run:
                bar = Progress(sys.stderr, count, job.name)
                count = prune_jobs([Cutoff(job.id, cutoff)], record=entry.add, progress=bar).pruned
            if count:
                yield {"job": job.name, "older_than": cutoff.isoformat(), "occurrences": count}


def recover_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--job", help="only this job")
    add_request(parser)


def _sweep(sweep: Sweep, label: str, options: Options) -> Answer:
    """Run a sweep without a limit; the exit code tells whether the broker refused messages."""
    now, name = database_now(), options.get("job")
    job = control.get_job(name) if name else None
    counts = sweep.outstanding(now, job)
    if options["dry_run"]:
        return Answer([counts], _key_values, single=True)
    bar = Progress(sys.stderr, sum(counts.values()), label)
    swept = run_sweep(sweep, requester=requester_of(options), now=now, job=job, progress=bar)
    bar.end()
    refused = {"failed": swept.failed} if sweep.sends else {}
    closing = REFUSED.format(swept.failed) if swept.failed else ""
    rows = [swept.changes | refused]
    return Answer(rows, _key_values, closing, single=True, exit_code=lambda: int(swept.failed > 0))


REFUSED = "messages the broker refused: {:,}; nothing is lost, beats send them again"
VERBS = (
    Verb("backfill", "create missing past occurrences of a job", backfill_range, backfill_arguments),
    Verb(
        "prune", "delete finished occurrences beyond each job's retention", prune_occurrences, prune_arguments
    ),
    Verb(
        "recover",
        "plan what was missed and apply each job's recovery strategy",
        partial(_sweep, sweep_runner.RECOVER, "catching up"),
        recover_arguments,
    ),
    Verb(
        "reap",
        "run one pass of the sweeper: lost attempts, overdue occurrences, unsent messages, settlement",
        partial(_sweep, sweep_runner.REAP, "taking back"),
        add_request,
    ),
    Verb(
        "resend",
        "send again what the broker never confirmed, or has lost",
        partial(_sweep, sweep_runner.RESEND, "sending"),
        add_request,
    ),
    Verb(
        "settle",
        "ask workers to settle occurrences whose runs are over, and to call pending hooks",
        partial(_sweep, sweep_runner.SETTLE, "asking"),
        add_request,
    ),
)

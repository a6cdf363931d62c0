"""Actions that delete what is older than a job's retention: of one job, or of all jobs (REC-6).

Beats prune by themselves, a few rows at a time; these actions are for operators who do not want to wait.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from punctual.jobs.models import Job
from punctual.occurrences.engines.contract import Cutoff
from punctual.operations.action import (
    Action,
    Call,
    Fact,
    Preview,
    Progress,
    Result,
    Scope,
    at_least,
    no_progress,
)
from punctual.operations.audit import audited
from punctual.operations.models import AuditedAction
from punctual.operations.permissions import Permission
from punctual.recovery.pruning import PruneResult, prune_jobs
from punctual.recovery.requester import Requester
from punctual.recovery.retention import PrunePreview, cutoff_of, job_cutoffs, preview_pruning

MAX_INTERACTIVE = 2_000  # occurrences one request of a page deletes
JOBS_PER_PAGE, MAX_JOBS = 1_000, 10_000
DESCRIPTION = (
    "Occurrences are deleted with their runs and attempts. This cannot be undone. Counters keep their "
    "values. Beats do the same by themselves, a few rows at a time."
)
KEEPS_ALL = (
    "The job keeps everything: neither the job nor the platform sets a retention. "
    "Set `retention`, such as 30d, in its configuration."
)
NOTHING_OLD = "Nothing is older than the retention. Dead letters are kept until they are resolved."
NO_RETENTION = "No job has a retention: everything is kept. Set `retention`, such as 30d, in a job."
JobCall = Call[Sequence[Job]]


def prune_job(
    job: Job,
    *,
    requester: Requester,
    now: datetime,
    limit: int | None = None,
    progress: Progress = no_progress,
) -> PruneResult | None:
    """Delete what is older than the job's retention, with one audit entry; None if it keeps everything."""
    cutoff = cutoff_of(job, now)
    if cutoff is None:
        return None
    details = {"job": job.name, "older_than": cutoff.isoformat()}
    with audited(AuditedAction.PRUNE, requester, now=now, details=details) as entry:
        return prune_jobs([Cutoff(job.id, cutoff)], record=entry.add, limit=limit, progress=progress)


def prune_all_jobs(*, requester: Requester, now: datetime, limit: int) -> PruneResult:
    """Delete what is older than each job's retention, up to `limit` rows, with one audit entry."""
    left = False
    with audited(AuditedAction.PRUNE, requester, now=now, details={"jobs": "all"}) as entry:
        for cutoffs, more_jobs in _pages(now):
            pruned = prune_jobs(cutoffs, record=entry.add, limit=limit - entry.count)
            left = more_jobs or pruned.more
            if entry.count >= limit:
                break
    return PruneResult(entry.count, more=left)


def _pages(now: datetime) -> Iterator[tuple[list[Cutoff], bool]]:
    """Read jobs with a retention page by page, and whether there are jobs after each page."""
    rows = Job.objects.order_by("id").only("id", "name", "config", "schedule")
    for start in range(0, MAX_JOBS, JOBS_PER_PAGE):
        page = list(rows[start : start + JOBS_PER_PAGE + 1])
        more = len(page) > JOBS_PER_PAGE
        yield job_cutoffs(page[:JOBS_PER_PAGE], now), more
        if not more:
            return


def _preview_job(call: JobCall) -> Preview:
    (job,) = call.target
    cutoff = cutoff_of(job, call.now)
    if cutoff is None:
        return Preview(0, hint=KEEPS_ALL)
    found = preview_pruning(job_cutoffs([job], call.now), call.limit or MAX_INTERACTIVE)
    facts: list[Fact] = [("ended before", cutoff)]
    if found.count:
        facts += [("oldest", found.first), ("newest", found.last)]
    return Preview(found.count, facts, more=found.more, hint="" if found.count else NOTHING_OLD)


def _execute_job(call: JobCall, requester: Requester) -> Result:
    (job,) = call.target
    pruned = prune_job(
        job, requester=requester, now=call.now, limit=call.limit, progress=call.progress
    ) or PruneResult(0)
    return _result(job.name, pruned)


def _preview_all(call: Call[None]) -> Preview:
    """Read up to the first page of jobs with something to prune: executing gets no further either."""
    limit, with_retention = call.limit or MAX_INTERACTIVE, 0
    for cutoffs, more_jobs in _pages(call.now):
        with_retention += len(cutoffs)
        found = preview_pruning(cutoffs, limit)
        if found.count or not more_jobs:
            return _all_jobs_preview(found, with_retention, unread=more_jobs)
    return _all_jobs_preview(PrunePreview(more=True), with_retention, unread=True)


def _all_jobs_preview(found: PrunePreview, with_retention: int, *, unread: bool) -> Preview:
    more = found.more or unread
    facts: list[Fact] = [("jobs with a retention", at_least(with_retention, more=unread))]
    if found.count:
        facts += [
            ("jobs affected", at_least(found.jobs, more=more)),
            ("oldest", found.first),
            ("newest", found.last),
        ]
    return Preview(found.count, facts, more=more, hint=_all_jobs_hint(found, with_retention, unread=unread))


def _all_jobs_hint(found: PrunePreview, with_retention: int, *, unread: bool) -> str:
    if not with_retention:
        return NO_RETENTION
    if found.count:
        return ""
    if unread:
        return f"Nothing to prune in the first {MAX_JOBS:,} jobs; beats prune the others."
    return "Nothing is older than the retention of its job."


def _execute_all(call: Call[None], requester: Requester) -> Result:
    limit = call.limit or MAX_INTERACTIVE
    return _result("All jobs", prune_all_jobs(requester=requester, now=call.now, limit=limit))


def _result(owner: str, pruned: PruneResult) -> Result:
    rest = " There are more: beats prune them by themselves, or repeat the action." if pruned.more else ""
    unit = "occurrence" if pruned.pruned == 1 else "occurrences"
    return Result(
        pruned.pruned, f"{owner}: {pruned.pruned:,} {unit} deleted; counters keep their values.{rest}"
    )


PRUNE_JOB = Action(
    Scope.JOBS,
    "prune",
    label="Prune",
    verb="Prune",
    permission=Permission.PRUNE_JOB,
    description=DESCRIPTION,
    preview=_preview_job,
    execute=_execute_job,
    audit=AuditedAction.PRUNE,
    dangerous=True,
    limit=MAX_INTERACTIVE,
)
PRUNE_ALL = Action(
    Scope.PLATFORM,
    "prune",
    label="Prune all jobs",
    verb="Prune",
    permission=Permission.PRUNE_JOB,
    description=DESCRIPTION,
    preview=_preview_all,
    execute=_execute_all,
    audit=AuditedAction.PRUNE,
    dangerous=True,
    limit=MAX_INTERACTIVE,
)

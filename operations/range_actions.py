"""Actions on a range of a job's past: backfill and replay (REC-4, REC-5).

Both ends of the range are included. A preview counts; a range that holds more than `limit` is refused before
anything is written.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from punctual.jobs.models import Job, Origin
from punctual.occurrences.models import Cause
from punctual.occurrences.states import OccurrenceState
from punctual.operations.action import (
    Action,
    Call,
    Fact,
    Parameter,
    ParameterKind,
    Preview,
    Progress,
    Result,
    Scope,
    Table,
    no_progress,
)
from punctual.operations.audit import audited
from punctual.operations.models import AuditedAction
from punctual.operations.occurrence_actions import REQUEST_KEY, replay_occurrences
from punctual.operations.permissions import Permission
from punctual.recovery.backfill import MAX_BACKFILLED, Backfilled, backfill
from punctual.recovery.replay import MAX_IN_RANGE, select_range
from punctual.recovery.requester import Requester
from punctual.recovery.time_range import TimeRange

MAX_INTERACTIVE = 10_000  # occurrences one request of a page creates or reads
DAY = timedelta(days=1)
SINCE = Parameter("since", "from", ParameterKind.INSTANT, default=lambda now: now - DAY)
UNTIL = Parameter("until", "to", ParameterKind.INSTANT, default=lambda now: now, ends_range=True)
PART = Parameter(
    "part",
    "What runs again",
    ParameterKind.CHOICE,
    default=lambda _now: "all",
    choices={"all": "all tasks of each occurrence", "failed": "only tasks that did not succeed"},
)
# Occurrences that end after the preview are not part of the replay that was confirmed.
PREVIEWED_AT = Parameter("seen", "previewed at", ParameterKind.INSTANT, default=lambda now: now, pinned=True)
JobCall = Call[Sequence[Job]]


def backfill_job(  # noqa: PLR0913 - one request
    job: Job,
    time_range: TimeRange,
    *,
    requester: Requester,
    now: datetime,
    dry_run: bool = False,
    limit: int = MAX_BACKFILLED,
    progress: Progress = no_progress,
) -> Backfilled:
    """Create the occurrences of a range that are missing, with one audit entry."""
    details = {"job": job.name, "from": time_range.since.isoformat(), "to": time_range.until.isoformat()}
    with audited(AuditedAction.BACKFILL, requester, now=now, details=details) as entry:
        return backfill(
            job, time_range, requester=requester, now=now, dry_run=dry_run, limit=limit,
            record=entry.add, progress=progress,
        )  # fmt: skip


def _range(call: JobCall) -> TimeRange:
    return TimeRange(call.values["since"], call.values["until"])


def _range_facts(call: JobCall) -> list[Fact]:
    return [("from", call.values["since"]), ("to", call.values["until"])]


def is_planned(job: Job) -> bool:
    return not (job.removed or job.origin == Origin.POLLING)


def _preview_backfill(call: JobCall) -> Preview:
    (job,) = call.target
    limit = call.limit or MAX_BACKFILLED
    found = backfill(job, _range(call), requester=Requester(""), now=call.now, dry_run=True, limit=limit)
    facts: list[Fact] = [
        *_range_facts(call),
        ("instants of the schedule in the range", found.instants),
        ("exist already and are left alone", found.existing),
        ("would be created", found.created),
    ]
    if found.created:
        facts += [("first of them", found.first), ("last of them", found.last)]
    if found.pruned_until:
        facts += [("pruned until", found.pruned_until)]
    return Preview(found.created, facts, hint=_backfill_hint(found), tables=_existing_table(found))


def _backfill_hint(found: Backfilled) -> str:
    if not found.instants:
        return "The schedule has no past instant in this range; choose another range."
    if not found.created:
        return "Every instant of this range has an occurrence; to run them again, replay the range."
    if found.pruned_until:
        return "Instants may have run already: their occurrences are pruned. They would run again."
    return ""


def _existing_table(found: Backfilled) -> list[Table]:
    if not found.existing_at:
        return []
    partial = len(found.existing_at) < found.existing
    title = f"Exist already ({len(found.existing_at)} of {found.existing:,})" if partial else "Exist already"
    return [Table(title, ["instant"], [[at] for at in found.existing_at])]


def _execute_backfill(call: JobCall, requester: Requester) -> Result:
    (job,) = call.target
    limit = call.limit or MAX_BACKFILLED
    made = backfill_job(
        job, _range(call), requester=requester, now=call.now, limit=limit, progress=call.progress
    ).created
    return Result(made, f"{job.name}: {_occurrences(made)} created.", created_cause=Cause.BACKFILL)


def _preview_replay(call: JobCall) -> Preview:
    (job,) = call.target
    failed_only = call.values["part"] == "failed"
    found = select_range(
        job, _range(call), failed_only=failed_only, seen=call.now, now=call.now,
        limit=call.limit or MAX_IN_RANGE,
    )  # fmt: skip
    total = len(found.ids) + found.others
    facts: list[Fact] = [
        *_range_facts(call),
        ("what runs again", "only what did not succeed" if failed_only else "all tasks"),
        ("occurrences in the range", total),
        ("would be replayed", len(found.ids)),
        ("left out: in progress, ranges, replays, or nothing failed", found.others),
    ]
    hint = "" if total else "The job has no occurrence in this range; choose another range."
    if total and not found.ids:
        hint = "No occurrence in this range can be replayed that way."
    rows = [[OccurrenceState(state), count] for state, count in found.states.most_common()]
    tables = [Table("How they ended", ["state", "occurrences"], rows)] if rows else []
    return Preview(len(found.ids), facts, hint=hint, tables=tables)


def _execute_replay(call: JobCall, requester: Requester) -> Result:
    (job,) = call.target
    failed_only = call.values["part"] == "failed"
    seen = min(call.values.get("seen") or call.now, call.now)
    limit = call.limit or MAX_IN_RANGE
    ids = select_range(job, _range(call), failed_only=failed_only, seen=seen, now=call.now, limit=limit).ids
    since, until = call.values["since"].isoformat(), call.values["until"].isoformat()
    replayed = replay_occurrences(
        ids,
        requester=requester,
        now=call.now,
        failed_only=failed_only,
        key=call.values.get("key") or None,
        criteria={"job": job.name, "from": since, "to": until},
        progress=call.progress,
    )
    made = len(replayed.created)
    return Result(made, f"{job.name}: {_occurrences(made)} replayed.", created_cause=Cause.REPLAY)


def _occurrences(count: int) -> str:
    return f"{count:,} occurrence{'' if count == 1 else 's'}"


NOT_PLANNED = "not planned by beats any more"
BACKFILL = Action(
    Scope.JOBS,
    "backfill",
    label="Backfill",
    verb="Backfill",
    permission=Permission.BACKFILL_JOB,
    description="Each past instant without an occurrence gets one, due now, in the order of the instants. "
    "The schedule does not change.",
    preview=_preview_backfill,
    execute=_execute_backfill,
    audit=AuditedAction.BACKFILL,
    parameters=(SINCE, UNTIL),
    available=is_planned,
    unavailable=NOT_PLANNED,
    limit=MAX_INTERACTIVE,
)
REPLAY = Action(
    Scope.JOBS,
    "replay",
    label="Replay a range",
    verb="Replay",
    permission=Permission.REPLAY_OCCURRENCE,
    description="Each occurrence runs again as a new one linked to it, in the order of the instants; "
    "overlap policy and pools apply.",
    preview=_preview_replay,
    execute=_execute_replay,
    audit=AuditedAction.REPLAY,
    parameters=(SINCE, UNTIL, PART, PREVIEWED_AT, REQUEST_KEY),
    available=is_planned,
    unavailable=NOT_PLANNED,
    limit=MAX_INTERACTIVE,
)

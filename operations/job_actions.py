"""Actions on jobs: run now, pause, resume, stop, start, remove (JOB-8).

Each applies to one job or to several. Each changed job gets an audit entry and a line in the requester's log;
the versions of `stop`, `start` and `remove` name their author.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from django.db import transaction
from django.utils.text import Truncator

from punctual.jobs import control
from punctual.jobs.config.choices import Backlog
from punctual.jobs.errors import PunctualError
from punctual.jobs.ids import format_id
from punctual.jobs.models import Job, Origin
from punctual.occurrences.models import Occurrence
from punctual.occurrences.planning.paused_instants import Backlogged, preview_backlog
from punctual.occurrences.states import OccurrenceState
from punctual.operations.action import (
    Action,
    Call,
    Fact,
    Parameter,
    ParameterKind,
    Preview,
    Result,
    Scope,
    Table,
    at_least,
)
from punctual.operations.job_requests import carry_out
from punctual.operations.models import AuditedAction
from punctual.operations.permissions import DELETE_JOB, Permission
from punctual.recovery.requester import Requester

MAX_NAMED, MAX_NAME_LENGTH = 10, 60
BACKLOG = Parameter(
    "backlog",
    "What shall run of the instants skipped meanwhile?",
    ParameterKind.CHOICE,
    default=lambda _now: "none",
    choices={
        "none": "none: go on with the next instant",
        "last": "last: run the last one",
        "all": "all: run each of them, as its own occurrence",
        "compressed": "compressed: run once; the run gets the list of instants it covers",
    },
    in_preview=False,
)

UNTIL = Parameter(
    "until",
    "until",
    ParameterKind.INSTANT,
    default=lambda _now: None,
    in_preview=False,
    optional=True,
)
LATER_BACKLOG = replace(BACKLOG, label="If it has an end: what shall run of the instants skipped until then?")

JobCall = Call[Sequence[Job]]


@dataclass(frozen=True)
class Switched:
    """What became of one job; an empty `log` means that nothing changed."""

    message: str
    log: str = ""
    refused: bool = False
    occurrence: UUID | None = None


Switch = Callable[[Job, JobCall, Requester], Switched]


def _run(job: Job, call: JobCall, requester: Requester) -> Switched:
    options = {name: call.values.get(name) for name in ("args", "config", "idempotency_key")}
    occurrence = carry_out(
        AuditedAction.RUN, job.name, requester, lambda: control.trigger(job.name, **options)
    )
    display_id = format_id("occ", occurrence)
    return Switched(f"“{job.name}” runs now.", f"Run now: {display_id}", occurrence=occurrence)


def _pause(job: Job, call: JobCall, requester: Requester) -> Switched:
    until, backlog = call.values.get("until"), call.values.get("backlog", "none")

    def change() -> bool:
        return control.pause(job.name, reason=requester.reason, until=until, backlog=backlog)

    if not carry_out(AuditedAction.PAUSE, job.name, requester, change):
        return Switched(f"“{job.name}” was paused already.")
    if until is None:
        return Switched(f"“{job.name}” is paused; its instants are recorded as skipped.", "Paused")
    end = f"until {until.isoformat(' ', 'seconds')}, backlog: {backlog}"
    return Switched(f"“{job.name}” is paused {end}; its instants are recorded as skipped.", f"Paused {end}")


def _resume(job: Job, call: JobCall, requester: Requester) -> Switched:
    backlog = call.values.get("backlog", "none")

    def change() -> bool:
        return control.resume(job.name, backlog=backlog)

    if not carry_out(AuditedAction.RESUME, job.name, requester, change):
        return Switched(f"“{job.name}” was not paused.")
    message = f"“{job.name}” runs again from its next instant on; backlog: {backlog}."
    return Switched(message, f"Resumed, backlog: {backlog}")


def _stop(job: Job, _call: JobCall, requester: Requester) -> Switched:
    def change() -> bool:
        return control.stop(job.name, author=requester.by, reason=requester.reason)

    if not carry_out(AuditedAction.STOP, job.name, requester, change):
        return Switched(f"“{job.name}” was stopped already.")
    return Switched(f"“{job.name}” is stopped; nothing is planned until it is started.", "Stopped")


def _start(job: Job, _call: JobCall, requester: Requester) -> Switched:
    def change() -> bool:
        return control.start(job.name, author=requester.by, reason=requester.reason)

    if not carry_out(AuditedAction.START, job.name, requester, change):
        return Switched(f"“{job.name}” was started already.")
    message = f"“{job.name}” is started; instants of the time it was stopped are not made up for."
    return Switched(message, "Started")


def _remove(job: Job, _call: JobCall, requester: Requester) -> Switched:
    def change() -> bool:
        return control.remove(job.name, author=requester.by, reason=requester.reason)

    if not carry_out(AuditedAction.REMOVE, job.name, requester, change):
        return Switched(f"“{job.name}” was removed already.")
    return Switched(f"“{job.name}” is removed; its history stays.", "Removed")


def apply_switch(switch: Switch, job: Job, call: JobCall, requester: Requester) -> Switched:
    if job.removed:
        return Switched(f"“{job.name}” is no longer registered.", refused=True)
    try:
        with transaction.atomic():  # the change, its audit entry and its line in the log
            switched = switch(job, call, requester)
            if switched.log:
                requester.log(job, ": ".join(filter(None, [switched.log, requester.reason])))
    except PunctualError as error:
        return Switched(f"“{job.name}”: {error}", refused=True)
    return switched


def execute_each(switch: Switch, participle: str) -> Callable[[JobCall, Requester], Result]:
    def execute(call: JobCall, requester: Requester) -> Result:
        return summarize([apply_switch(switch, job, call, requester) for job in call.target], participle)

    return execute


def summarize(switched: Sequence[Switched], participle: str) -> Result:
    """One line for all jobs that changed, one for each that did not; a single job has its own line."""
    changed = [one for one in switched if one.log]
    refused = tuple(one.message for one in switched if one.refused)
    unchanged = tuple(one.message for one in switched if not one.log and not one.refused)
    created = tuple(one.occurrence for one in changed if one.occurrence)
    if len(switched) == 1 and not refused:
        return Result(len(changed), switched[0].message, created=created)
    message = f"{len(changed)} job{'' if len(changed) == 1 else 's'} {participle}."
    return Result(len(changed), message, notes=unchanged, problems=refused, created=created)


def preview_each(available: Callable[[Job], bool], unavailable: str) -> Callable[[JobCall], Preview]:
    def preview(call: JobCall) -> Preview:
        affected = [job for job in call.target if available(job)]
        others = [job for job in call.target if not available(job)]
        facts: list[Fact] = [("job" if len(affected) == 1 else "jobs", listed(affected))] if affected else []
        facts += [(f"left alone: {unavailable}", listed(others))] if others else []
        return Preview(len(affected), facts, ("job", "jobs"))

    return preview


def preview_resume(call: JobCall) -> Preview:
    """Count what each choice would run too, where there is one job to choose a backlog for."""
    preview = preview_each(_is_paused, NOT_PAUSED)(call)
    if len(call.target) != 1 or not call.target[0].paused:
        return preview
    job = call.target[0]
    backlog = preview_backlog(job, call.now)
    facts: list[Fact] = [*preview.facts, ("paused since", job.paused_at)]
    facts += [("paused until", job.paused_until)] if job.paused_until else []
    facts += [("instants of the pause", at_least(backlog.instants, more=backlog.more))]
    facts += [("from", backlog.first), ("to", backlog.last)] if backlog.instants else []
    return Preview(preview.count, facts, preview.unit, tables=[choices_table(backlog)])


def choices_table(backlog: Backlogged) -> Table:
    """What each choice would run, and what stays skipped."""
    rows = [(str(choice), backlog.runs(choice), _consequence(choice, backlog)) for choice in Backlog]
    return Table("What each choice would do", ("backlog", "runs", "what happens"), rows)


def _consequence(choice: Backlog, backlog: Backlogged) -> str:
    count = at_least(backlog.instants, more=backlog.more)
    if not backlog.instants:
        return "nothing was skipped"
    if choice is Backlog.COMPRESSED:
        return f"one run that covers {count}"
    if choice is Backlog.ALL:
        return f"the newest {backlog.runs(choice):,} of {count} run in their order"
    return "all stay skipped" if choice is Backlog.NONE else f"the last one runs, of {count}"


def preview_remove(call: JobCall) -> Preview:
    """Count the planned occurrences too: they are deleted."""
    preview = preview_each(_is_removable, NOT_REMOVABLE)(call)
    removable = [job.pk for job in call.target if _is_removable(job)]
    planned = Occurrence.objects.filter(job__in=removable, state=OccurrenceState.PENDING).count()
    return Preview(preview.count, [*preview.facts, ("planned occurrences, deleted", planned)], preview.unit)


def listed(jobs: Sequence[Job]) -> str:
    names = [Truncator(job.name).chars(MAX_NAME_LENGTH) for job in jobs[:MAX_NAMED]]
    more = f" and {len(jobs) - MAX_NAMED} more" if len(jobs) > MAX_NAMED else ""
    return ", ".join(names) + more


def _is_registered(job: Job) -> bool:
    return not job.removed


def _is_paused(job: Job) -> bool:
    return job.paused and not job.removed


def _is_not_paused(job: Job) -> bool:
    return not (job.paused or job.removed)


def _is_enabled(job: Job) -> bool:
    return job.enabled and not job.removed


def _is_stopped(job: Job) -> bool:
    return not (job.enabled or job.removed)


def _is_removable(job: Job) -> bool:
    return job.origin == Origin.ADMIN and not job.removed


def _job_action(  # noqa: PLR0913 - facts of one action
    audit: AuditedAction,
    label: str,
    description: str,
    switch: Switch,
    participle: str,
    *,
    available: Callable[[Job], bool],
    unavailable: str,
    permission: str = Permission.PAUSE_JOB,
    preview: Callable[[JobCall], Preview] | None = None,
    parameters: tuple[Parameter, ...] = (),
    needs_reason: bool = False,
    dangerous: bool = False,
) -> Action[Sequence[Job]]:
    return Action(
        Scope.JOBS,
        audit.value,
        label=label,
        verb=label.removesuffix(" now"),
        permission=permission,
        description=description,
        preview=preview or preview_each(available, unavailable),
        execute=execute_each(switch, participle),
        audit=audit,
        parameters=parameters,
        available=available,
        unavailable=unavailable,
        many=True,
        needs_reason=needs_reason,
        dangerous=dangerous,
    )


NOT_REGISTERED = "no longer registered"
NOT_PAUSED = "not paused, or no longer registered"
NOT_REMOVABLE = "not made in the admin, or no longer registered"
RUN = _job_action(
    AuditedAction.RUN, "Run now", "Each job runs once, now, in addition to its schedule.", _run, "run now",
    available=_is_registered, unavailable=NOT_REGISTERED, permission=Permission.TRIGGER_JOB,
)  # fmt: skip
PAUSE = _job_action(
    AuditedAction.PAUSE, "Pause", "Instants are recorded as skipped until the job is resumed.",
    _pause, "paused",
    available=_is_not_paused, unavailable="paused already, or no longer registered",
    parameters=(UNTIL, LATER_BACKLOG), needs_reason=True,
)  # fmt: skip
RESUME = _job_action(
    AuditedAction.RESUME, "Resume",
    "Jobs run again from their next instant on. Instants skipped meanwhile stay skipped, unless a job is "
    "resumed from its own page with another choice.",
    _resume, "resumed",
    available=_is_paused, unavailable=NOT_PAUSED, preview=preview_resume, parameters=(BACKLOG,),
)  # fmt: skip
STOP = _job_action(
    AuditedAction.STOP, "Stop", "Nothing is planned until the job is started.", _stop, "stopped",
    available=_is_enabled, unavailable="stopped already, or no longer registered", needs_reason=True,
)  # fmt: skip
START = _job_action(
    AuditedAction.START, "Start", "The job is planned again, from its next instant on.", _start, "started",
    available=_is_stopped, unavailable="started already, or no longer registered",
)  # fmt: skip
REMOVE = _job_action(
    AuditedAction.REMOVE, "Remove",
    "The job does not fire again, and what is planned is deleted. Its versions and occurrences stay.",
    _remove, "removed",
    available=_is_removable, unavailable=NOT_REMOVABLE, permission=DELETE_JOB, preview=preview_remove,
    needs_reason=True, dangerous=True,
)  # fmt: skip

"""Actions that run or hold jobs: run now, pause, resume, stop, start (JOB-8).

Each applies to one job or to several. A changed job gets a line in the requester's log; the versions of
`stop` and `start` name their author.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.utils.text import Truncator

from punctual.jobs import control
from punctual.jobs.errors import PunctualError
from punctual.jobs.ids import format_id
from punctual.jobs.models import Job
from punctual.occurrences.models import Occurrence
from punctual.occurrences.planning.paused_instants import MAX_REPEATED
from punctual.occurrences.states import OccurrenceState, Reason
from punctual.operations.action import Action, Call, Fact, Parameter, ParameterKind, Preview, Result, Scope
from punctual.operations.permissions import Permission
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

JobCall = Call[Sequence[Job]]


@dataclass(frozen=True)
class Switched:
    """What became of one job; an empty `log` means that nothing changed."""

    message: str
    log: str = ""
    refused: bool = False
    occurrence: UUID | None = None


Switch = Callable[[Job, JobCall, Requester], Switched]


def _run(job: Job, _call: JobCall, _requester: Requester) -> Switched:
    occurrence = control.trigger(job.name)
    display_id = format_id("occ", occurrence)
    return Switched(f"“{job.name}” runs now.", f"Run now: {display_id}", occurrence=occurrence)


def _pause(job: Job, _call: JobCall, _requester: Requester) -> Switched:
    if control.pause(job.name):
        return Switched(f"“{job.name}” is paused; its instants are recorded as skipped.", "Paused")
    return Switched(f"“{job.name}” was paused already.")


def _resume(job: Job, call: JobCall, _requester: Requester) -> Switched:
    backlog = call.values.get("backlog", "none")
    if control.resume(job.name, backlog=backlog):
        message = f"“{job.name}” runs again from its next instant on; backlog: {backlog}."
        return Switched(message, f"Resumed, backlog: {backlog}")
    return Switched(f"“{job.name}” was not paused.")


def _stop(job: Job, _call: JobCall, requester: Requester) -> Switched:
    if control.stop(job.name, author=requester.by):
        return Switched(f"“{job.name}” is stopped; nothing is planned until it is started.", "Stopped")
    return Switched(f"“{job.name}” was stopped already.")


def _start(job: Job, _call: JobCall, requester: Requester) -> Switched:
    if control.start(job.name, author=requester.by):
        message = f"“{job.name}” is started; instants of the time it was stopped are not made up for."
        return Switched(message, "Started")
    return Switched(f"“{job.name}” was started already.")


def apply_switch(switch: Switch, job: Job, call: JobCall, requester: Requester) -> Switched:
    if job.removed:
        return Switched(f"“{job.name}” is no longer registered.", refused=True)
    try:
        switched = switch(job, call, requester)
    except PunctualError as error:
        return Switched(f"“{job.name}”: {error}", refused=True)
    if switched.log:
        requester.log(job, ": ".join(filter(None, [switched.log, requester.reason])))
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
        facts: list[Fact] = [("jobs", listed(affected))] if affected else []
        facts += [(f"left alone: {unavailable}", listed(others))] if others else []
        return Preview(len(affected), facts, ("job", "jobs"))

    return preview


def preview_resume(call: JobCall) -> Preview:
    """Count the skipped instants too, where there is one job to choose a backlog for."""
    preview = preview_each(_is_paused, NOT_PAUSED)(call)
    if len(call.target) != 1 or not call.target[0].paused:
        return preview
    job = call.target[0]
    skipped = Occurrence.objects.filter(
        job=job, state=OccurrenceState.SKIPPED, reason=Reason.PAUSED, finished_at__gte=job.paused_at
    )
    facts = [
        *preview.facts,
        ("paused since", job.paused_at),
        ("instants skipped since then", skipped[:MAX_REPEATED].count()),
    ]
    return Preview(preview.count, facts, preview.unit)


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


def _job_action(  # noqa: PLR0913 - facts of one action
    name: str,
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
) -> Action[Sequence[Job]]:
    return Action(
        Scope.JOBS,
        name,
        label=label,
        verb=label.removesuffix(" now"),
        permission=permission,
        description=description,
        preview=preview or preview_each(available, unavailable),
        execute=execute_each(switch, participle),
        audit=None,
        parameters=parameters,
        available=available,
        unavailable=unavailable,
        many=True,
        confirm=bool(parameters),
        needs_reason=False,
    )


NOT_REGISTERED = "no longer registered"
NOT_PAUSED = "not paused, or no longer registered"
RUN = _job_action(
    "run", "Run now", "Each job runs once, now, in addition to its schedule.", _run, "run now",
    available=_is_registered, unavailable=NOT_REGISTERED, permission=Permission.TRIGGER_JOB,
)  # fmt: skip
PAUSE = _job_action(
    "pause", "Pause", "Instants are recorded as skipped until the job is resumed.", _pause, "paused",
    available=_is_not_paused, unavailable="paused already, or no longer registered",
)  # fmt: skip
RESUME = _job_action(
    "resume", "Resume",
    "Jobs run again from their next instant on. Instants skipped meanwhile stay skipped, unless a job is "
    "resumed from its own page with another choice.",
    _resume, "resumed",
    available=_is_paused, unavailable=NOT_PAUSED, preview=preview_resume, parameters=(BACKLOG,),
)  # fmt: skip
STOP = _job_action(
    "stop", "Stop", "Nothing is planned until the job is started.", _stop, "stopped",
    available=_is_enabled, unavailable="stopped already, or no longer registered",
)  # fmt: skip
START = _job_action(
    "start", "Start", "The job is planned again, from its next instant on.", _start, "started",
    available=_is_stopped, unavailable="started already, or no longer registered",
)  # fmt: skip

"""The catalogue of events: every log line of ours is an event with ids (OPS-6).

An event has a name, a level and a meaning; `docs/events.md` is generated from here. Its subject is passed
as facts, ids first: `job`, `task`, `occurrence`, `run`, `attempt`, `beat`, `worker`.
"""

import logging
from collections.abc import Mapping, MutableMapping
from enum import StrEnum
from logging import DEBUG, ERROR, INFO, WARNING
from typing import Any, Self

logger = logging.getLogger("punctual")


class Event(StrEnum):
    JOBS_SYNCED = "jobs.synced", INFO, "A beat started and wrote the jobs declared in code to rows."
    JOB_UNPLANNABLE = (
        "job.unplannable",
        WARNING,
        "A job's schedule or settings are invalid; it is not planned.",
    )
    JOB_OVER = "job.over", WARNING, "A new or changed schedule has no further instant; the job never runs."
    JOB_RESUMED = "job.resumed", INFO, "The pause of a job had an end; a beat has resumed the job."
    OCCURRENCE_MISSED = "occurrence.missed", WARNING, "Instants passed without a beat and will not run."
    OCCURRENCE_RECOVERED = "occurrence.recovered", INFO, "Instants passed without a beat and run now."
    OCCURRENCE_SKIPPED = (
        "occurrence.skipped",
        INFO,
        "A beat skipped an occurrence because another one of its job was active or took its place.",
    )
    OCCURRENCE_FINISHED = "occurrence.finished", INFO, "An occurrence has finished."
    OCCURRENCE_STALE = (
        "occurrence.stale",
        WARNING,
        "The sweeper ended an occurrence that exceeded its `execution_timeout` or `dispatch_timeout`.",
    )
    OCCURRENCES_PRUNED = "occurrences.pruned", INFO, "A beat deleted occurrences past their retention."
    HOOK_FAILED = "hook.failed", WARNING, "A hook raised, hung or died; the outcome does not change."
    RUN_DISPATCH_FAILED = (
        "run.dispatch_failed",
        WARNING,
        "The broker did not accept messages; the sweeper resends them.",
    )
    RUN_RESENT = "run.resent", INFO, "The sweeper resent messages that were not confirmed or were lost."
    RUN_UNSERVED = (
        "run.unserved",
        WARNING,
        "No live worker consumes the queue of these runs; they give their slots back and wait.",
    )
    MESSAGES_NOT_RETURNED = (
        "messages.not_returned",
        WARNING,
        "A worker lost its broker with unfinished messages; the sweeper resends them.",
    )
    MESSAGE_REJECTED = (
        "message.rejected",
        ERROR,
        "A worker could not read a message and removed it; the sweeper resends what it may have carried.",
    )
    ATTEMPT_FAILED = (
        "attempt.failed",
        WARNING,
        "A function raised or exceeded its timeout. An error with the traceback if there is no retry.",
    )
    ATTEMPT_LOST = "attempt.lost", WARNING, "The lease of a silent worker expired; its run is retried."
    ATTEMPT_ENDED = (
        "attempt.ended",
        WARNING,
        "A worker's supervisor ended an attempt, or found its process dead.",
    )
    ATTEMPT_FENCED = "attempt.fenced", WARNING, "A result was discarded: the attempt had lost its claim."
    RESULT_DELAYED = (
        "result.delayed",
        WARNING,
        "The database does not answer; a worker keeps the result of a run and retries.",
    )
    SUPERVISOR_FAILED = "supervisor.failed", WARNING, "A pass of a worker's supervisor failed; it retries."
    BEAT_TICKED = "beat.ticked", DEBUG, "A tick of a beat had work to do, with its counts."
    STEP_BLOCKED = (
        "step.blocked",
        WARNING,
        "Another session holds a row that a step of a beat or a supervisor needs; the step is repeated.",
    )
    CLAIM_BLOCKED = (
        "claim.blocked",
        WARNING,
        "Another session holds the row of a run that a worker wants to claim; the sweeper resends the run.",
    )
    ADMISSION_BLOCKED = (
        "admission.blocked",
        WARNING,
        "A worker could not admit waiting occurrences because of a lock; the sweeper admits them.",
    )
    BEAT_TICK_FAILED = "beat.tick_failed", WARNING, "A tick of a beat failed; the next one retries."
    LEASES_NOT_RENEWED = (
        "leases.not_renewed",
        WARNING,
        "A polling scheduler could not renew its leases; it retries.",
    )
    LISTENER_FAILED = "listener.failed", ERROR, "A listener of a polling scheduler raised."
    PROBE_FAILED = "probe.failed", WARNING, "A check of `/readyz` or `doctor` failed."

    level: int
    meaning: str

    def __new__(cls, name: str, level: int, meaning: str) -> Self:
        event = str.__new__(cls, name)
        event._value_ = name
        event.level, event.meaning = level, meaning
        return event


def emit(event: Event, **facts: object) -> None:
    """Log an event at its level."""
    if logger.isEnabledFor(event.level):
        _log(event, facts)


def emit_error(event: Event, **facts: object) -> None:
    """Log an event with the traceback of the current exception."""
    if logger.isEnabledFor(event.level):
        _log(event, facts, exc_info=True)


def emit_failure(event: Event, error: BaseException | None, traceback: str, /, **facts: object) -> None:
    """Log an event as an error, with the traceback of an exception, or with one that was stored as text."""
    if not logger.isEnabledFor(ERROR):
        return
    place = event.value, 0
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    text, extra = (event.value, _line(facts)), {"event": event.value, "facts": facts}
    stored = None if error is not None and error.__traceback__ else traceback.rstrip() or None
    record = logger.makeRecord(logger.name, ERROR, *place, "%s %s", text, exc_info, None, extra, stored)
    logger.handle(record)


def _log(event: Event, facts: Mapping[str, object], *, exc_info: bool = False) -> None:
    extra = {"event": event.value, "facts": facts}
    logger.log(event.level, "%s %s", event.value, _line(facts), extra=extra, exc_info=exc_info)


def _line(facts: Mapping[str, object]) -> str:
    text = " ".join(f"{key}={value}" for key, value in facts.items())
    return " ".join(text.split())  # the text of an error may have several lines


class IdsAdapter(logging.LoggerAdapter[logging.Logger]):
    """A logger that adds `{"ids": …}` to every record and keeps the caller's `extra`."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs

"""The one catalogue of events: every log line of the platform is an event with ids (OPS-6).

An event has a name, a level and a meaning; `docs/events.md` is written from here. What it is about comes as
facts, ids first: `job`, `task`, `occurrence`, `run`, `attempt`, `beat`, `worker`.
"""

import logging
from collections.abc import Mapping, MutableMapping
from enum import StrEnum
from logging import DEBUG, ERROR, INFO, WARNING
from typing import Any, Self

logger = logging.getLogger("punctual")


class Event(StrEnum):
    JOBS_SYNCED = "jobs.synced", INFO, "A beat started and compared the jobs in code with their rows."
    JOB_UNPLANNABLE = (
        "job.unplannable",
        WARNING,
        "A job's schedule or settings cannot be read; it stands still.",
    )
    OCCURRENCE_MISSED = (
        "occurrence.missed",
        WARNING,
        "Instants passed unfired, and the strategy leaves them out.",
    )
    OCCURRENCE_RECOVERED = "occurrence.recovered", INFO, "Instants passed unfired, and runs make up for them."
    OCCURRENCE_FINISHED = "occurrence.finished", INFO, "An occurrence is over."
    OCCURRENCE_STALE = (
        "occurrence.stale",
        WARNING,
        "An occurrence outlived its `execution_timeout` and was ended.",
    )
    OCCURRENCES_PRUNED = "occurrences.pruned", INFO, "A beat deleted what its jobs keep no longer."
    HOOK_FAILED = "hook.failed", WARNING, "A hook raised; the outcome stands."
    RUN_DISPATCH_FAILED = "run.dispatch_failed", WARNING, "The broker took no messages; they are sent again."
    RUN_RESENT = "run.resent", INFO, "Messages that were not accepted, or lost, were sent again."
    MESSAGES_KEPT = (
        "messages.kept",
        WARNING,
        "A worker lost its broker and gave nothing back; it is sent again.",
    )
    ATTEMPT_FAILED = "attempt.failed", WARNING, "A function raised, or passed its time."
    ATTEMPT_LOST = (
        "attempt.lost",
        WARNING,
        "A worker fell silent; its lease ran out and the run goes on elsewhere.",
    )
    ATTEMPT_ENDED = (
        "attempt.ended",
        WARNING,
        "A worker's supervisor ended an attempt, or found its process dead.",
    )
    ATTEMPT_FENCED = (
        "attempt.fenced",
        WARNING,
        "A result came too late to count: the claim was lost before it.",
    )
    RESULT_WAITS = "result.waits", WARNING, "The database is away; a finished run's result waits for it."
    WATCHER_TROUBLED = "watcher.troubled", ERROR, "A bundle could not be relieved in time; it is tried again."
    SUPERVISOR_TROUBLED = "supervisor.troubled", WARNING, "A worker's supervisor failed for once; it goes on."
    BEAT_TICKED = "beat.ticked", DEBUG, "A tick did something; how much of what."
    BEAT_TROUBLED = "beat.troubled", WARNING, "A tick failed; the beat goes on with the next."
    LEASES_UNRENEWED = (
        "leases.unrenewed",
        WARNING,
        "A polling scheduler could not renew its leases; it tries again.",
    )
    LISTENER_FAILED = (
        "listener.failed",
        ERROR,
        "A listener of a polling scheduler raised; the scheduler goes on.",
    )
    PROBE_FAILED = "probe.failed", WARNING, "A check of `/readyz` or `doctor` failed, and how."

    level: int
    meaning: str

    def __new__(cls, name: str, level: int, meaning: str) -> Self:
        event = str.__new__(cls, name)
        event._value_ = name
        event.level, event.meaning = level, meaning
        return event


def heard(event: Event) -> bool:
    """Whether anybody listens; asked before facts are made that cost something."""
    return logger.isEnabledFor(event.level)


def emit(event: Event, **facts: object) -> None:
    """Log it at its level."""
    if logger.isEnabledFor(event.level):
        _log(event, facts)


def emit_error(event: Event, **facts: object) -> None:
    """The same with the traceback of the exception at hand."""
    if logger.isEnabledFor(event.level):
        _log(event, facts, exc_info=True)


def _log(event: Event, facts: Mapping[str, object], *, exc_info: bool = False) -> None:
    text = " ".join(f"{key}={value}" for key, value in facts.items())
    one_line = " ".join(text.split())  # whatever an error says
    extra = {"event": event.value, "facts": facts}
    logger.log(event.level, "%s %s", event.value, one_line, extra=extra, exc_info=exc_info)


class WithIds(logging.LoggerAdapter[logging.Logger]):
    """A logger whose lines carry ids; what a caller adds as `extra` stays."""

    def __init__(self, logger: logging.Logger, ids: Mapping[str, object]) -> None:
        super().__init__(logger, {"ids": ids})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs

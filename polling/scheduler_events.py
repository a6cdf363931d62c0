"""The events of the polling scheduler: each is one log line and one call of the listener (POL-7).

The listener receives events in the order in which they happen.
"""

import logging
from collections.abc import Callable, Mapping
from enum import StrEnum

from punctual.jobs.events import Event, emit_error, logger


class SchedulerEvent(StrEnum):
    INITIALIZATION_STARTED = "SchedulerInitializationStarted"
    INITIALIZATION_COMPLETED = "SchedulerInitializationCompleted"
    INITIALIZATION_FAILED = "SchedulerInitializationFailed"
    REINITIALIZATION_STARTED = "SchedulerReinitializationStarted"
    # Another process has registered a different set; and registered this scheduler's set again.
    REPLACED = "SchedulerReplaced"
    REINSTATED = "SchedulerReinstated"
    STOP_REQUESTED = "SchedulerStopRequested"
    STOPPED = "SchedulerStopped"
    RUN_STARTED = "TaskRunStarted"
    RUN_COMPLETED = "TaskRunCompleted"
    RUN_FAILED = "TaskRunFailed"
    RETRY_STARTED = "TaskRetryStarted"
    RETRY_PREEMPTED = "TaskRetryPreempted"
    POLLING_STARTED = "PollingStarted"
    POLLING_STOP_REQUESTED = "PollingStopRequested"
    POLLING_STOPPED = "PollingStopped"
    # Errors outside any call of the user.
    POLL_FAILED = "PollFailed"
    TASK_UNREADABLE = "TaskUnreadable"
    CLAIM_LOST = "TaskClaimLost"
    OUTCOME_UNRECORDED = "TaskOutcomeUnrecorded"


Facts = Mapping[str, object]
Listener = Callable[[SchedulerEvent, Facts], None]

WARNING_EVENTS = {
    SchedulerEvent.REPLACED,
    SchedulerEvent.POLL_FAILED,
    SchedulerEvent.TASK_UNREADABLE,
    SchedulerEvent.CLAIM_LOST,
    SchedulerEvent.OUTCOME_UNRECORDED,
}


def ignore_event(_event: SchedulerEvent, _facts: Facts) -> None:
    """The default listener."""


def emit(listener: Listener, event: SchedulerEvent, **facts: object) -> None:
    level = logging.WARNING if event in WARNING_EVENTS else logging.INFO
    if logger.isEnabledFor(level):
        logged = {key: value for key, value in facts.items() if key != "registrations"}
        text = " ".join(f"{key}={value}" for key, value in logged.items())
        logger.log(level, "%s %s", event.value, text, extra={"event": event.value, "facts": logged})
    try:
        listener(event, facts)
    except Exception:  # noqa: BLE001 - user code: an error in it must not keep the callback from running
        emit_error(Event.LISTENER_FAILED, signal=event.value)

"""The events of the polling scheduler, under the names its users know → one log line each (POL-7).

A listener gets every event as it happens, in order; that is what traces are recorded from.
"""

import logging
from collections.abc import Callable, Mapping
from enum import StrEnum

from jobs.events import Event, emit_error, logger


class Signal(StrEnum):
    INITIALIZATION_STARTED = "SchedulerInitializationStarted"
    INITIALIZATION_COMPLETED = "SchedulerInitializationCompleted"
    INITIALIZATION_FAILED = "SchedulerInitializationFailed"
    REINITIALIZATION_STARTED = "SchedulerReinitializationStarted"
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
    # Trouble that no caller is there to be told about.
    POLL_TROUBLED = "PollTroubled"
    TASK_UNREADABLE = "TaskUnreadable"
    CLAIM_LOST = "TaskClaimLost"
    OUTCOME_UNRECORDED = "TaskOutcomeUnrecorded"


Facts = Mapping[str, object]
Listener = Callable[[Signal, Facts], None]

TROUBLES = {
    Signal.POLL_TROUBLED,
    Signal.TASK_UNREADABLE,
    Signal.CLAIM_LOST,
    Signal.OUTCOME_UNRECORDED,
}


def deaf(_signal: Signal, _facts: Facts) -> None:
    """Nobody listens."""


def emit(listener: Listener, signal: Signal, **facts: object) -> None:
    level = logging.WARNING if signal in TROUBLES else logging.INFO
    if logger.isEnabledFor(level):
        shown = {key: value for key, value in facts.items() if key != "registrations"}
        text = " ".join(f"{key}={value}" for key, value in shown.items())
        logger.log(level, "%s %s", signal.value, text, extra={"event": signal.value, "facts": shown})
    try:
        listener(signal, facts)
    except Exception:  # noqa: BLE001 - user code: it must not come between a claim and its callback
        emit_error(Event.LISTENER_FAILED, signal=signal.value)

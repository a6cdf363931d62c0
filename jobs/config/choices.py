"""The enums that settings take; their values are what users write and what is stored."""

from enum import StrEnum


class Mode(StrEnum):
    """How the tasks of one occurrence run."""

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"


class Overlap(StrEnum):
    """What happens to an occurrence that is due while an earlier one is active."""

    SKIP = "skip"
    ALLOW = "allow"
    QUEUE = "queue"
    REPLACE = "replace"
    QUEUE_LATEST = "queue_latest"


class Update(StrEnum):
    """What happens to occurrences that are already planned when the definition of their job changes."""

    IMMEDIATE = "immediate"  # every planned occurrence follows the new definition
    GRACEFUL = "graceful"  # the earliest pending one still runs with the old definition
    WINDOWED = "windowed"  # only those within the horizon follow the new definition


class FailureStrategy(StrEnum):
    """What happens to the other tasks of an occurrence when one fails for good."""

    FAIL_FAST = "fail_fast"
    CONTINUE = "continue"
    RETRY_ON_FAILURE = "retry_on_failure"


class Recovery(StrEnum):
    """What happens to instants that passed while no beat was running."""

    EXECUTE_ALL = "execute_all"
    EXECUTE_LAST = "execute_last"
    MARK_AS_MISSED = "mark_as_missed"
    BOUNDED_WINDOW = "bounded_window"
    COMPRESSED = "compressed"


class Backlog(StrEnum):
    """Which instants that a pause skipped run when the job is resumed."""

    NONE = "none"
    LAST = "last"
    ALL = "all"
    COMPRESSED = "compressed"

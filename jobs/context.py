"""The context that a task receives: facts about its run, and a channel to its worker (EXE-6)."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol


class Channel(Protocol):
    """What a running function and its worker tell each other."""

    @property
    def canceled(self) -> bool: ...

    @property
    def stopping(self) -> bool: ...

    def note(self, progress: object) -> None: ...


@dataclass
class DetachedChannel:
    """A channel without a worker, for tests of a single function; set the flags it shall see."""

    canceled: bool = False
    stopping: bool = False
    progress: object = None

    def note(self, progress: object) -> None:
        self.progress = progress


@dataclass(frozen=True, kw_only=True)
class PreviousRun:
    """The run of the same task in the previous occurrence."""

    run_id: str
    scheduled_for: datetime
    state: str
    finished_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a task knows about its run; every field is fixed when the attempt starts."""

    job: str
    task: str
    occurrence_id: str
    run_id: str
    attempt_id: str
    attempt: int
    scheduled_for: datetime
    run_at: datetime
    started_at: datetime
    deadline: datetime | None
    metadata: Mapping[str, str]
    args: Mapping[str, Any]
    logger: logging.Logger | logging.LoggerAdapter[logging.Logger]
    cause: str = "schedule"
    covers: tuple[datetime, ...] = ()
    covers_from: datetime | None = None
    covers_count: int = 0
    channel: Channel = field(default_factory=DetachedChannel, repr=False)
    read_previous_run: Callable[[], PreviousRun | None] = field(default=lambda: None, repr=False)

    @property
    def canceled(self) -> bool:
        """True once the run has been canceled or has lost its claim: clean up and return."""
        return self.channel.canceled

    @property
    def stopping(self) -> bool:
        """True once the worker has been told to stop: finish soon, or raise `HandBack`."""
        return self.channel.stopping

    def heartbeat(self, progress: object = None) -> bool:
        """Report progress, any JSON value; return False once the run has been canceled."""
        if progress is not None:
            self.channel.note(progress)
        return not self.canceled

    @cached_property
    def previous_run(self) -> PreviousRun | None:
        """The run of the same task in the previous occurrence; read from the database on first use."""
        return self.read_previous_run()

    @property
    def idempotency_key(self) -> str:
        """A key that is the same for every attempt of this run, for systems that deduplicate."""
        return self.run_id

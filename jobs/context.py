"""What a task is told about its run, and what it can say back (EXE-6)."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol


class Line(Protocol):
    """How a running function and its worker reach each other."""

    @property
    def canceled(self) -> bool: ...

    @property
    def stopping(self) -> bool: ...

    def note(self, progress: object) -> None: ...


@dataclass
class LooseLine:
    """Nobody at the other end; for tests of a function by itself: set what it shall be told."""

    canceled: bool = False
    stopping: bool = False
    progress: object = None

    def note(self, progress: object) -> None:
        self.progress = progress


@dataclass(frozen=True, kw_only=True)
class PreviousRun:
    """The run of the same task in the occurrence before this one."""

    run_id: str
    scheduled_for: datetime
    state: str
    finished_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Context:
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
    line: Line = field(default_factory=LooseLine, repr=False)
    look_back: Callable[[], PreviousRun | None] = field(default=lambda: None, repr=False)

    @property
    def canceled(self) -> bool:
        """True once this run is no longer wanted: clean up and return."""
        return self.line.canceled

    @property
    def stopping(self) -> bool:
        """True once the worker was told to stop: finish soon, or raise `HandBack`."""
        return self.line.stopping

    def heartbeat(self, progress: object = None) -> bool:
        """Say how far it is, as something JSON can hold; answers whether the run is still wanted."""
        if progress is not None:
            self.line.note(progress)
        return not self.canceled

    @cached_property
    def previous_run(self) -> PreviousRun | None:
        """Asked of the database when it is first used."""
        return self.look_back()

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this run: hand it to systems that deduplicate."""
        return self.run_id

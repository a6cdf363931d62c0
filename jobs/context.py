"""What a task is told about its run (EXE-6), as far as it exists: times, ids, attempt, metadata."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from threading import Event
from typing import Any


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
    stop: Event = field(default_factory=Event, repr=False)

    @property
    def canceled(self) -> bool:
        """True once this run is no longer wanted: clean up and return."""
        return self.stop.is_set()

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this run: hand it to systems that deduplicate."""
        return self.run_id

"""Format log records as plain lines or as JSON (OPS-6). Every process uses the same formatters.

Plain: an event has its facts as `key=value`; a line of a task's function ends with the ids of its run.
JSON: `at`, `level`, `logger`, `process`, then `event` or `message`, then facts and ids, each a field.
"""

import json
import logging
import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from punctual.jobs.redaction import redact_values

HOST = socket.gethostname()
PLAIN = "%(asctime)s %(levelname)-7s %(name)s  %(message)s"
PLAIN_IDS = ("run", "attempt")  # the logger's name contains job and task


class Plain(logging.Formatter):
    def __init__(self) -> None:
        super().__init__(PLAIN)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        line = super().formatMessage(record)
        ids = _ids(record)
        return " ".join([line, *(f"{key}={ids[key]}" for key in PLAIN_IDS if key in ids)])


class Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self.fields(record), default=str, ensure_ascii=False)

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        at = datetime.fromtimestamp(record.created, UTC)
        event = getattr(record, "event", None)
        text = {"event": event} if event else {"message": record.getMessage()}
        values = {**_ids(record), **getattr(record, "facts", {})}
        # The handler's filter redacts the message only, so facts are redacted here.
        facts = {key: redact_values(_plain(value)) for key, value in values.items()}
        return {
            **facts,
            "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            # The name under which a beat signs in; a worker's attempts end with the same process id.
            "process": f"{HOST}:{os.getpid()}",
            **text,
            **self._exception(record),
        }

    def _exception(self, record: logging.LogRecord) -> dict[str, str]:
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        text = record.exc_text or record.stack_info  # a stored traceback
        return {"exception": text} if text else {}


def _ids(record: logging.LogRecord) -> Mapping[str, Any]:
    ids: Mapping[str, Any] = getattr(record, "ids", {})
    return ids


def _plain(value: object) -> Any:
    return value if isinstance(value, bool | int | float | None) else str(value)

"""Print an uncaught exception as one line if its kind is known, otherwise with its traceback.

Installed as `sys.excepthook` in every process of the platform. `--traceback` always shows the traceback.
Secrets are redacted in both.
"""

import re
import sys
import traceback
from types import TracebackType

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, ProgrammingError
from kombu.exceptions import OperationalError as BrokerError

from punctual.jobs.errors import PunctualError
from punctual.jobs.redaction import redact_addresses, redact_text
from punctual.schedules import ScheduleError

UNMIGRATED = re.compile(r"no such (table|column)|(relation|column) .+ does not exist")


def explain(error: BaseException) -> str | None:
    """Return the line to show; None if the traceback is needed."""
    text = " ".join(str(error).split())
    match error:
        case OperationalError() | ProgrammingError() if UNMIGRATED.search(text):
            return f"the database is not migrated; run `manage.py migrate` ({text})"
        case OperationalError():
            return f"cannot use database {_database()}: {text}"
        case BrokerError():
            return f"cannot reach the broker: {text}"
        case PunctualError() | ScheduleError() | ImproperlyConfigured():
            return text
    return None


def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    line = None if "--traceback" in sys.argv else explain(error)
    if line is None:
        line = "".join(traceback.format_exception(kind, error, trace)).rstrip()
    else:
        line = f"error: {line}"
    sys.stderr.write(f"{redact(line)}\n")


def redact(line: str) -> str:
    try:
        return redact_text(line)
    except ImproperlyConfigured:  # the settings cannot be read, so their secrets are unknown
        return redact_addresses(line)


def install() -> None:
    sys.excepthook = hook


def _database() -> str:
    """Return host, port and name, without user and password."""
    entry = settings.DATABASES["default"]
    place = ":".join(str(part) for part in (entry.get("HOST"), entry.get("PORT")) if part)
    return f"{place}/{entry['NAME']}" if place else str(entry["NAME"])

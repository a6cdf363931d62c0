"""Compute a short text that is the same for errors of the same kind; dead letters are grouped by it. Pure.

Numbers, ids, addresses and line numbers differ between failures of the same kind, and are left out. The type,
the message, and the function that raised the error are used.
"""

import hashlib
import re

from punctual.execution.ending.outcome import Ending, Result

LENGTH = 16
VARYING = re.compile(
    r"""
    [0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}  # a UUID
    | 0x[0-9a-f]+                                # an address
    | \b(?=[0-9a-f]*[0-9])[0-9a-f]{8,}\b         # a digest
    | [0-9]+(?:[.,:][0-9]+)*                     # a number, a time
    """,
    re.VERBOSE | re.IGNORECASE,
)
FRAME = re.compile(r'^  File "(?:.*/)?([^"/]+)", line [0-9]+, in (.+)$', re.MULTILINE)


def fingerprint(result: Result) -> str:
    """For a lost or timed out attempt only the ending counts: its error text differs each time."""
    parts = [result.error_type or str(result.ending)]
    if result.ending not in (Ending.LOST, Ending.TIMEOUT):
        parts += [normalize_message(result.error), _last_frame(result.traceback)]
    return hashlib.sha256("\n".join(parts).encode(errors="replace")).hexdigest()[:LENGTH]


def normalize_message(message: str) -> str:
    return VARYING.sub("#", " ".join(message.split()))


def _last_frame(traceback: str) -> str:
    frames: list[tuple[str, str]] = FRAME.findall(traceback)
    return ":".join(frames[-1]) if frames else ""

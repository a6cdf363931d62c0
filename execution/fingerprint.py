"""An error → a short text, the same for the same kind of error, by which dead letters are grouped. Pure.

What differs from one failure to the next is left out: numbers, ids, addresses, line numbers. What is left
is the type, the message, and the function it was raised in.
"""

import hashlib
import re

from execution.outcome import Ending, Result

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
    """The process that died, or the limit that was passed, tells no more than that it did."""
    parts = [result.error_type or str(result.ending)]
    if result.ending not in (Ending.LOST, Ending.TIMEOUT):
        parts += [normalized(result.error), _last_frame(result.traceback)]
    return hashlib.sha256("\n".join(parts).encode(errors="replace")).hexdigest()[:LENGTH]


def normalized(message: str) -> str:
    return VARYING.sub("#", " ".join(message.split()))


def _last_frame(traceback: str) -> str:
    frames: list[tuple[str, str]] = FRAME.findall(traceback)
    return ":".join(frames[-1]) if frames else ""

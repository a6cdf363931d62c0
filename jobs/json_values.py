"""Find in a value what is no JSON, or what a JSON column cannot store. Pure."""

import math
import unicodedata
from collections.abc import Iterator, Mapping

from punctual.jobs.errors import DefinitionError

MAX_DEPTH = 100
MAX_INTEGER_BITS = 4096  # Python refuses to print or parse more than 4300 digits
EXPECTED = "expected JSON: a text, a number, true, false, null, a list, or an object with texts as keys"


def is_storable(text: str) -> bool:
    """Whether PostgreSQL can store the text, as text and as JSON."""
    if text.isascii():
        return "\0" not in text
    return "\0" not in text and not any(unicodedata.category(character) == "Cs" for character in text)


def find_mistakes(value: object, path: str, *, owner: str = "", depth: int = 0) -> Iterator[DefinitionError]:
    """Return every part that is not JSON or cannot be stored; the field of an error is its path."""
    if depth > MAX_DEPTH:
        yield DefinitionError(
            path or "definition", "…", f"nested too deeply, at most {MAX_DEPTH} levels", owner=owner
        )
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                yield DefinitionError(path or "definition", key, "expected a text as key", owner=owner)
                continue
            yield from find_mistakes(key, path, owner=owner, depth=depth)
            yield from find_mistakes(item, f"{path}.{key}" if path else key, owner=owner, depth=depth + 1)
    elif isinstance(value, list | tuple):
        for n, item in enumerate(value):
            yield from find_mistakes(item, f"{path}[{n}]", owner=owner, depth=depth + 1)
    elif isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        reason = f"the number has {value.bit_length()} bits, at most {MAX_INTEGER_BITS}"
        yield DefinitionError(path or "definition", "…", reason, owner=owner)
    elif reason := _refusal(value):
        yield DefinitionError(path or "definition", value, reason, owner=owner)


def _refusal(value: object) -> str:
    """Why a value without parts is refused; empty if it is not."""
    match value:
        case None | bool() | int():
            return ""
        case str():
            return "" if is_storable(value) else "NUL and lone surrogates cannot be stored"
        case float():
            return "" if math.isfinite(value) else "expected a finite number; JSON has no other"
    return f"{EXPECTED}; got {type(value).__name__}"

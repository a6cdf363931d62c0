"""Read a JSON or YAML file into a plain document, and write one (JOB-3).

The file is not trusted: size, encoding, syntax, tags, repeated keys, depth, and YAML aliases that would
expand beyond memory are refused with one DefinitionError.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from punctual.jobs.errors import DefinitionError

MAX_BYTES = 100 * 1024 * 1024
MAX_VALUES = 20_000_000  # a file of MAX_BYTES without aliases stays below it
MAX_DEPTH = 100  # a definition needs seven levels
FORMATS = ("json", "yaml")
SUFFIXES = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}

# libyaml is ten times as fast. Both loaders are the safe ones, which build no Python objects.
SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
SafeDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class Loader(SafeLoader):  # type: ignore[misc]  # chosen at run time
    """The safe loader; a repeated key is an error instead of the last one winning."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - PyYAML's
        keys = [name.value for name, _ in node.value if isinstance(name, yaml.ScalarNode)]
        if (key := _repeated_key(keys)) is not None:
            raise yaml.constructor.ConstructorError(
                None, None, f"key {key!r} is given twice", node.start_mark
            )
        return super().construct_mapping(node, deep=deep)


def read_document(path: str) -> object:
    """Read a file; its suffix or, without one, its first character decides the format."""
    text = _read_text(path)
    format_ = SUFFIXES.get(Path(path).suffix.lower()) or _guess_format(text)
    try:
        return READERS[format_](text)
    except yaml.YAMLError as error:
        raise _error(path, f"not YAML we accept: {_one_line(error)}") from None
    except RecursionError:
        raise _error(path, "nested too deeply") from None
    except ValueError as error:  # JSON's own error among them
        raise _error(path, f"not {format_.upper()}: {_one_line(error)}") from None


def format_document(document: object, format_: str) -> str:
    """Write a document as text; keys keep their order, so the same document gives the same text."""
    if format_ == "json":
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    text: str = yaml.dump(document, Dumper=SafeDumper, sort_keys=False, allow_unicode=True, width=MAX_BYTES)
    return text


def format_of(name: str | None, path: str | None) -> str:
    """Return the format that the user named, or the one of the file's suffix."""
    if name is not None and name not in FORMATS:
        raise DefinitionError("format", name, f"expected one of {', '.join(FORMATS)}")
    return name or SUFFIXES.get(Path(path or "").suffix.lower(), "json")


def _read_text(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _error(path, getattr(error, "strerror", None) or str(error)) from None
    if len(content) > MAX_BYTES:
        raise _error(path, f"larger than {MAX_BYTES // 1024**2} MB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _error(path, f"not UTF-8: byte {error.start} is {content[error.start]:#04x}") from None


def _guess_format(text: str) -> str:
    return "json" if text.lstrip()[:1] in {"{", "["} else "yaml"


def _json(text: str) -> object:
    return json.loads(text, object_pairs_hook=_unique_keys)


def _yaml(text: str) -> object:
    _check_depth(text)
    document: object = yaml.load(text, Loader=Loader)  # noqa: S506 - a subclass of the safe loader
    if (values := _size(document, {})) > MAX_VALUES:
        raise yaml.YAMLError(f"its aliases expand to {values:.0e} values; at most {MAX_VALUES:.0e}")
    return document


def _check_depth(text: str) -> None:
    """Refuse deep nesting before the load: libyaml's recursion overflows the C stack and ends the process."""
    depth = 0
    for event in yaml.parse(text, Loader=SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                place = str(event.start_mark).strip()
                raise yaml.YAMLError(f"nested too deeply, at most {MAX_DEPTH} levels {place}")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


READERS: Mapping[str, Callable[[str], object]] = {"json": _json, "yaml": _yaml}


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if (key := _repeated_key([name for name, _ in pairs])) is not None:
        raise ValueError(f"key {key!r} is given twice")
    return dict(pairs)


def _repeated_key(keys: list[str]) -> str | None:
    if len(set(keys)) == len(keys):
        return None
    return max(keys, key=keys.count)


def _size(value: object, sizes: dict[int, int]) -> int:
    """Count the values once aliases are expanded; each object is visited once."""
    children = _children(value)
    if children is None:
        return 1
    if id(value) not in sizes:
        sizes[id(value)] = MAX_VALUES + 1  # an object that contains itself expands without end
        sizes[id(value)] = 1 + sum(_size(child, sizes) for child in children)
    return sizes[id(value)]


def _children(value: object) -> Iterable[object] | None:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _error(path: str, reason: str) -> DefinitionError:
    return DefinitionError("file", path, reason)

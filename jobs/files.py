"""A file → a plain document of harmless shape, and back: JSON or YAML (JOB-3).

Files come from anywhere, so this is where they are made harmless: size, encoding, syntax, tags,
repeated keys, depth, and YAML aliases that would unfold into more than a machine can hold. One
DefinitionError says what is wrong and where.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from jobs.errors import DefinitionError

MOST_BYTES = 100 * 1024 * 1024
MOST_VALUES = 20_000_000  # a file of MOST_BYTES without aliases stays below it
FORMATS = ("json", "yaml")
SUFFIXES = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}

# libyaml reads and writes ten times as fast; both are the safe ones, which know no Python objects.
SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
SafeDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class Loader(SafeLoader):  # type: ignore[misc]  # chosen at run time
    """Safe, and a key given twice is a mistake instead of a silent last word."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - PyYAML's
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if twice := _repeated(keys):
            raise yaml.constructor.ConstructorError(
                None, None, f"key {twice!r} is given twice", node.start_mark
            )
        return super().construct_mapping(node, deep=deep)


def read(path: str) -> object:
    """The document in a file; its suffix or, without one, its first character tells the format."""
    text = _text(path)
    format_ = SUFFIXES.get(Path(path).suffix.lower()) or _guessed(text)
    try:
        return READERS[format_](text)
    except yaml.YAMLError as error:
        raise _refused(path, f"not YAML we accept: {_one_line(error)}") from None
    except RecursionError:
        raise _refused(path, "nested too deeply") from None
    except ValueError as error:  # JSON's own error among them
        raise _refused(path, f"not {format_.upper()}: {_one_line(error)}") from None


def written(document: object, format_: str) -> str:
    """Keys keep their order: the same document is the same text."""
    if format_ == "json":
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    text: str = yaml.dump(document, Dumper=SafeDumper, sort_keys=False, allow_unicode=True, width=MOST_BYTES)
    return text


def format_of(asked: str | None, path: str | None) -> str:
    if asked is not None and asked not in FORMATS:
        raise DefinitionError("format", asked, f"expected one of {', '.join(FORMATS)}")
    return asked or SUFFIXES.get(Path(path or "").suffix.lower(), "json")


def _text(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _refused(path, getattr(error, "strerror", None) or str(error)) from None
    if len(content) > MOST_BYTES:
        raise _refused(path, f"larger than {MOST_BYTES // 1024**2} MB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(path, f"not UTF-8: byte {error.start} is {content[error.start]:#04x}") from None


def _guessed(text: str) -> str:
    return "json" if text.lstrip()[:1] in {"{", "["} else "yaml"


def _json(text: str) -> object:
    return json.loads(text, object_pairs_hook=_unrepeated)


def _yaml(text: str) -> object:
    document: object = yaml.load(text, Loader=Loader)  # noqa: S506 - a subclass of the safe loader
    if (values := _size(document, {})) > MOST_VALUES:
        raise yaml.YAMLError(f"its aliases unfold into {values:.0e} values; at most {MOST_VALUES:.0e}")
    return document


READERS: Mapping[str, Callable[[str], object]] = {"json": _json, "yaml": _yaml}


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if twice := _repeated([key for key, _ in pairs]):
        raise ValueError(f"key {twice!r} is given twice")
    return dict(pairs)


def _repeated(keys: list[str]) -> str | None:
    if len(set(keys)) == len(keys):
        return None
    return max(keys, key=keys.count)


def _size(value: object, known: dict[int, int]) -> int:
    """How many values there are once aliases are written out; each object is looked at once."""
    children = _children(value)
    if children is None:
        return 1
    if id(value) not in known:
        known[id(value)] = MOST_VALUES + 1  # what contains itself never ends
        known[id(value)] = 1 + sum(_size(child, known) for child in children)
    return known[id(value)]


def _children(value: object) -> Iterable[object] | None:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _refused(path: str, reason: str) -> DefinitionError:
    return DefinitionError("file", path, reason)

"""A verb of `manage.py punctual`: its arguments, its function, and the answer it returns."""

from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Options = Mapping[str, Any]


def join_values(row: Row) -> str:
    return "  ".join(str(value) for value in row.values())


@dataclass(frozen=True)
class Answer:
    """Rows for programs; `line` turns a row into text for people.

    `exit_code` and `refusal` are read after the last row was printed, because rows may be lazy.
    """

    rows: Iterable[Row]
    line: Callable[[Row], str] = join_values
    closing: str = ""  # one more line of text, not part of the JSON
    single: bool = False  # JSON: the object itself instead of a list
    exit_code: Callable[[], int] = lambda: 0
    refusal: str = ""  # printed on standard error, with exit code 1


@dataclass(frozen=True)
class Verb:
    name: str
    help: str
    run: Callable[[Options], Answer]
    arguments: Callable[[ArgumentParser], object] = lambda _parser: None
    system_checks: bool = True  # False: runs on an installation that does not pass `manage.py check`


@dataclass(frozen=True)
class Group:
    """Verbs about one noun: `manage.py punctual jobs list`."""

    name: str
    help: str
    verbs: tuple[Verb, ...]

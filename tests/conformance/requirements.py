"""Read the requirements from docs/requirements.toml, in order."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "docs" / "requirements.toml"


@dataclass(frozen=True)
class Requirement:
    id: str
    text: str
    since: str | None  # None: planned


def read(text: str) -> list[Requirement]:
    return [requirement(id_, entry) for id_, entry in tomllib.loads(text).items()]


def requirement(id_: str, entry: dict[str, object]) -> Requirement:
    """A requirement is kept since a version, or planned; anything else is a mistake in the list."""
    match entry:
        case {"text": str(text), "since": str(since), **rest} if not rest:
            return Requirement(id_, text, since)
        case {"text": str(text), "planned": True, **rest} if not rest:
            return Requirement(id_, text, None)
    raise ValueError(f"{id_}: expected text and either since or planned = true, not {entry}")

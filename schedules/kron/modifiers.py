"""Modifiers such as `@win(after,3h) @dist(uniform)` in -> a spread and a policy out, and back as text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from schedules.durations import format_duration, parse_duration
from schedules.errors import DecisionError, KrontabError
from schedules.kron.constraints import Constraints
from schedules.kron.decision import Spread
from schedules.kron.distributions import UNIFORM, Distribution
from schedules.text import BLANKS, clip

CONCURRENCY = ("allow", "forbid", "replace")
_NAMES = ("tz", "win", "dist", "seed", "policy", "only", "avoid")
_MAY_REPEAT = ("only", "avoid")
_MODIFIER = re.compile(r'\s*@([A-Za-z]+)\(((?:[^()"]|"(?:[^"\\]|\\.)*")*)\)(?=\s|$)', re.ASCII)
_ARGUMENT = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*")+')
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_PLAIN = re.compile(r'[^\s,()"\\=]+')
# Any instant will do: a decision is only made to have every setting checked.
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)


class Modifier(NamedTuple):
    """What stands between the parentheses, and where the `@` is."""

    content: str
    position: int


@dataclass(frozen=True, slots=True)
class Policy:
    """What the platform does when runs overlap or come late."""

    concurrency: str = "forbid"
    deadline: timedelta = timedelta()
    suspend: bool = False


Modifiers = dict[str, list[Modifier]]


def scan(text: str, start: int) -> Modifiers:
    """Every modifier from the position on, by name; nothing else may stand between them."""
    found: Modifiers = {}
    end = len(text.rstrip(BLANKS))
    while start < end:
        match = _MODIFIER.match(text, start)
        if not match or match[1] not in _NAMES:
            raise refused("modifier", text[start:], "expected a modifier such as @win(after,1h)", start)
        name = match[1]
        position = match.start(1) - 1
        if name in found and name not in _MAY_REPEAT:
            raise refused(name, match[2], "given twice", position)
        found.setdefault(name, []).append(Modifier(match[2].strip(BLANKS), position))
        start = match.end()
    return found


def read_spread(found: Modifiers) -> Spread:
    """The spread of the modifiers present, checked by making one decision with it."""
    mode, duration = _window(found["win"][0]) if "win" in found else ("after", timedelta())
    spread = Spread(
        mode,
        duration,
        _distribution(found["dist"][0]) if "dist" in found else UNIFORM,
        *(_seed(found["seed"][0]) if "seed" in found else ("stable", "")),
        Constraints(
            tuple(modifier.content for modifier in found.get("only", ())),
            tuple(modifier.content for modifier in found.get("avoid", ())),
        ),
    )
    try:
        spread.decide("check", _ANY_TIME)
    except DecisionError as error:
        raise KrontabError(error.message, field=error.field, value=error.value) from error
    return spread


def read_policy(found: Modifiers) -> Policy:
    if "policy" not in found:
        return Policy()
    modifier = found["policy"][0]
    values = _pairs("policy", modifier, _arguments(modifier.content))
    if unknown := sorted(set(values) - {"concurrency", "deadline", "suspend"}):
        raise refused("policy", unknown[0], "unknown key", modifier.position)
    concurrency, suspend = values.get("concurrency", "forbid"), values.get("suspend", "false")
    deadline = parse_duration(values.get("deadline", "0s"))
    if concurrency not in CONCURRENCY:
        raise refused("policy", concurrency, "concurrency is allow, forbid or replace", modifier.position)
    if suspend not in {"true", "false"}:
        raise refused("policy", suspend, "suspend is true or false", modifier.position)
    if deadline is None:
        raise refused("policy", values["deadline"], "deadline is a duration", modifier.position)
    return Policy(concurrency, deadline, suspend == "true")


def format_spread(spread: Spread) -> list[str]:
    """The modifiers of a spread in their canonical order, defaults left out."""
    parts: list[str] = []
    if (spread.window_mode, spread.window_duration) != ("after", timedelta()):
        parts.append(f"@win({spread.window_mode},{format_duration(spread.window_duration)})")
    if spread.distribution != UNIFORM:
        shapes = [f"{key}={value}" for key, value in sorted(spread.distribution.params.items())]
        parts.append(f"@dist({','.join([spread.distribution.name, *shapes])})")
    if (spread.seed_strategy, spread.salt) != ("stable", ""):
        salt = [f"salt={_quoted(spread.salt)}"] if spread.salt else []
        parts.append(f"@seed({','.join([spread.seed_strategy, *salt])})")
    parts += [f"@only({text})" for text in spread.constraints.only]
    parts += [f"@avoid({text})" for text in spread.constraints.avoid]
    return parts


def format_policy(policy: Policy) -> list[str]:
    values: list[str] = []
    if policy.concurrency != "forbid":
        values.append(f"concurrency={policy.concurrency}")
    if policy.deadline:
        values.append(f"deadline={format_duration(policy.deadline)}")
    if policy.suspend:
        values.append("suspend=true")
    return [f"@policy({','.join(values)})"] if values else []


def _window(modifier: Modifier) -> tuple[str, timedelta]:
    mode, *rest = _arguments(modifier.content)
    duration = parse_duration(rest[0]) if len(rest) == 1 else None
    if duration is None:
        raise refused("win", modifier.content, "expected a mode and a duration", modifier.position)
    return mode, duration


def _distribution(modifier: Modifier) -> Distribution:
    name, *rest = _arguments(modifier.content)
    return Distribution(name, _pairs("dist", modifier, rest))


def _seed(modifier: Modifier) -> tuple[str, str]:
    strategy, *rest = _arguments(modifier.content)
    values = _pairs("seed", modifier, rest)
    if set(values) - {"salt"}:
        raise refused("seed", modifier.content, "expected a strategy and salt=", modifier.position)
    return strategy, values.get("salt", "")


def _arguments(content: str) -> list[str]:
    return [argument.strip(BLANKS) for argument in _ARGUMENT.findall(content)] or [""]


def _pairs(name: str, modifier: Modifier, arguments: list[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key in values:
            raise refused(name, argument, "expected key=value, each key once", modifier.position)
        values[key] = _unquoted(value)
    return values


def _unquoted(value: str) -> str:
    quoted = _QUOTED.fullmatch(value)
    return re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else value


def _quoted(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def refused(field: str, value: str, reason: str, position: int) -> KrontabError:
    shown = clip(value)
    return KrontabError(f"{field}: {reason}, got '{shown}'", field=field, value=shown, position=position)

"""Parse and format modifiers such as `@win(after,3h) @dist(uniform)`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from punctual.schedules.durations import format_duration, parse_duration
from punctual.schedules.errors import DecisionError, KrontabError
from punctual.schedules.kron.constraints import Constraints
from punctual.schedules.kron.decision import Spread
from punctual.schedules.kron.distributions import UNIFORM, Distribution
from punctual.schedules.text import BLANKS, clip

CONCURRENCY = ("allow", "forbid", "replace")
_NAMES = ("tz", "win", "dist", "seed", "policy", "only", "avoid")
_REPEATABLE = ("only", "avoid")
_MODIFIER = re.compile(r'\s*@([A-Za-z]+)\(((?:[^()"]|"(?:[^"\\]|\\.)*")*)\)(?=\s|$)', re.ASCII)
_ARGUMENT = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*")+')
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_PLAIN = re.compile(r'[^\s,()"\\=]+')
# An arbitrary instant: `read_spread` makes one decision to check every setting.
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)


class Modifier(NamedTuple):
    """The text between the parentheses, and the position of the `@`."""

    content: str
    position: int


@dataclass(frozen=True, slots=True)
class Policy:
    """What happens when runs overlap or are late."""

    concurrency: str = "forbid"
    deadline: timedelta = timedelta()
    suspend: bool = False


Modifiers = dict[str, list[Modifier]]


def scan(text: str, start: int) -> Modifiers:
    """Parse the modifiers from a position on, by name; no other text may stand between them."""
    modifiers: Modifiers = {}
    end = len(text.rstrip(BLANKS))
    while start < end:
        match = _MODIFIER.match(text, start)
        if not match or match[1] not in _NAMES:
            raise refusal("modifier", text[start:], "expected a modifier such as @win(after,1h)", start)
        name = match[1]
        position = match.start(1) - 1
        if name in modifiers and name not in _REPEATABLE:
            raise refusal(name, match[2], "given twice", position)
        modifiers.setdefault(name, []).append(Modifier(match[2].strip(BLANKS), position))
        start = match.end()
    return modifiers


def read_spread(modifiers: Modifiers) -> Spread:
    """Make a spread from the modifiers, and check it by making one decision with it."""
    mode, duration = _window(modifiers["win"][0]) if "win" in modifiers else ("after", timedelta())
    spread = Spread(
        mode,
        duration,
        _distribution(modifiers["dist"][0]) if "dist" in modifiers else UNIFORM,
        *(_seed(modifiers["seed"][0]) if "seed" in modifiers else ("stable", "")),
        Constraints(
            tuple(modifier.content for modifier in modifiers.get("only", ())),
            tuple(modifier.content for modifier in modifiers.get("avoid", ())),
        ),
    )
    try:
        spread.decide("check", _ANY_TIME)
    except DecisionError as error:
        raise KrontabError(error.message, field=error.field, value=error.value) from error
    return spread


def read_policy(modifiers: Modifiers) -> Policy:
    if "policy" not in modifiers:
        return Policy()
    modifier = modifiers["policy"][0]
    values = _pairs("policy", modifier, _arguments(modifier.content))
    if unknown := sorted(set(values) - {"concurrency", "deadline", "suspend"}):
        raise refusal("policy", unknown[0], "unknown key", modifier.position)
    concurrency, suspend = values.get("concurrency", "forbid"), values.get("suspend", "false")
    deadline = parse_duration(values.get("deadline", "0s"))
    if concurrency not in CONCURRENCY:
        raise refusal("policy", concurrency, "concurrency is allow, forbid or replace", modifier.position)
    if suspend not in {"true", "false"}:
        raise refusal("policy", suspend, "suspend is true or false", modifier.position)
    if deadline is None:
        raise refusal("policy", values["deadline"], "deadline is a duration", modifier.position)
    return Policy(concurrency, deadline, suspend == "true")


def format_spread(spread: Spread) -> list[str]:
    """Format a spread in canonical order, without defaults."""
    parts: list[str] = []
    if (spread.window_mode, spread.window_duration) != ("after", timedelta()):
        parts.append(f"@win({spread.window_mode},{format_duration(spread.window_duration)})")
    if spread.distribution != UNIFORM:
        shapes = [f"{key}={value}" for key, value in sorted(spread.distribution.params.items())]
        parts.append(f"@dist({','.join([spread.distribution.name, *shapes])})")
    if (spread.seed_strategy, spread.salt) != ("stable", ""):
        salt = [f"salt={_quote(spread.salt)}"] if spread.salt else []
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
        raise refusal("win", modifier.content, "expected a mode and a duration", modifier.position)
    return mode, duration


def _distribution(modifier: Modifier) -> Distribution:
    name, *rest = _arguments(modifier.content)
    return Distribution(name, _pairs("dist", modifier, rest))


def _seed(modifier: Modifier) -> tuple[str, str]:
    strategy, *rest = _arguments(modifier.content)
    values = _pairs("seed", modifier, rest)
    if set(values) - {"salt"}:
        raise refusal("seed", modifier.content, "expected a strategy and salt=", modifier.position)
    return strategy, values.get("salt", "")


def _arguments(content: str) -> list[str]:
    return [argument.strip(BLANKS) for argument in _ARGUMENT.findall(content)] or [""]


def _pairs(name: str, modifier: Modifier, arguments: list[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key in values:
            raise refusal(name, argument, "expected key=value, each key once", modifier.position)
        values[key] = _unquote(value)
    return values


def _unquote(value: str) -> str:
    quoted = _QUOTED.fullmatch(value)
    return re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else value


def _quote(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def refusal(field: str, value: str, reason: str, position: int) -> KrontabError:
    text = clip(value)
    return KrontabError(f"{field}: {reason}, got '{text}'", field=field, value=text, position=position)

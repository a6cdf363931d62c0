"""Parse and format modifiers such as `@win(after,3h) @dist(uniform)`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from punctual.schedules.durations import format_duration, parse_duration
from punctual.schedules.errors import DecisionError, KrontabError
from punctual.schedules.kron.constraints import Constraints
from punctual.schedules.kron.decision import Spread
from punctual.schedules.kron.distributions import UNIFORM, Distribution
from punctual.schedules.suggestions import did_you_mean
from punctual.schedules.text import BLANKS, clip

CONCURRENCY = ("allow", "forbid", "replace")
_NAMES = ("tz", "win", "dist", "seed", "policy", "only", "avoid")
_REPEATABLE = ("only", "avoid")
_MODIFIER = re.compile(r'\s*@([A-Za-z]+)\(((?:[^()"]|"(?:[^"\\]|\\.)*")*)\)(?=\s|$)', re.ASCII)
_ARGUMENT = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*")+')
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_PLAIN = re.compile(r'[^\s,()"\\=]+')
_POLICY: dict[str, Callable[[str], bool]] = {
    "concurrency": CONCURRENCY.__contains__,
    "deadline": lambda text: parse_duration(text) is not None,
    "suspend": ("true", "false").__contains__,
}
_POLICY_REASONS = {
    "concurrency": "concurrency is allow, forbid or replace",
    "deadline": "deadline is a duration",
    "suspend": "suspend is true or false",
}
# An arbitrary instant: `read_spread` makes one decision to check every setting.
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)


class Word(NamedTuple):
    """A part of the text and its position there."""

    text: str
    position: int


class Modifier(NamedTuple):
    """The words between the parentheses, their common text, and the position of the `@`."""

    content: Word
    arguments: list[Word]
    position: int


@dataclass(frozen=True, slots=True)
class Policy:
    """What happens when runs overlap or are late; `stated` are the keys that the text gives."""

    concurrency: str = "forbid"
    deadline: timedelta = timedelta()
    suspend: bool = False
    stated: frozenset[str] = field(default=frozenset(), compare=False)


Modifiers = dict[str, list[Modifier]]


def scan(text: str, start: int) -> Modifiers:
    """Parse the modifiers from a position on, by name; no other text may stand between them."""
    modifiers: Modifiers = {}
    end = len(text.rstrip(BLANKS))
    while start < end:
        match = _MODIFIER.match(text, start)
        if not match or match[1] not in _NAMES:
            other = _strip(text[start:end], start)
            reason = "expected a modifier such as @win(after,1h)"
            word = other.text.removeprefix("@").partition("(")[0]
            raise refusal("modifier", other.text, reason, other.position, did_you_mean(word, _NAMES))
        name = match[1]
        position = match.start(1) - 1
        if name in modifiers and name not in _REPEATABLE:
            raise refusal(name, match[2], "given twice", position)
        arguments = [_strip(word[0], word.start()) for word in _ARGUMENT.finditer(text, *match.span(2))]
        content = _strip(match[2], match.start(2))
        modifiers.setdefault(name, []).append(Modifier(content, arguments or [content], position))
        start = match.end()
    return modifiers


def _strip(text: str, position: int) -> Word:
    return Word(text.strip(BLANKS), position + len(text) - len(text.lstrip(BLANKS)))


def read_spread(modifiers: Modifiers) -> Spread:
    """Make a spread from the modifiers, and check it by making one decision with it."""
    mode, duration = _window(modifiers["win"][0]) if "win" in modifiers else ("after", timedelta())
    spread = Spread(
        mode,
        duration,
        _distribution(modifiers["dist"][0]) if "dist" in modifiers else UNIFORM,
        *(_seed(modifiers["seed"][0]) if "seed" in modifiers else ("stable", "")),
        Constraints(_clauses(modifiers, "only"), _clauses(modifiers, "avoid")),
    )
    try:
        spread.decide("check", _ANY_TIME)
    except DecisionError as error:
        position = _position(error, modifiers)
        raise _as_krontab_error(error, position) from error
    return spread


def _clauses(modifiers: Modifiers, name: str) -> tuple[str, ...]:
    """The clause sets of all modifiers of that name; each is checked alone, where its position is known."""
    for content, _, _ in modifiers.get(name, ()):
        try:
            Constraints.parse(only=(content.text,))
        except DecisionError as error:
            position = content.position + (error.position or 0)
            raise _as_krontab_error(error, position) from error
    return tuple(modifier.content.text for modifier in modifiers.get(name, ()))


def _as_krontab_error(error: DecisionError, position: int) -> KrontabError:
    return KrontabError(
        error.message, field=error.field, value=error.value, position=position, hint=error.hint
    )


def _position(error: DecisionError, modifiers: Modifiers) -> int:
    """Where the word stands that a decision has refused: the parameter it names, else the first word."""
    name = {"invalid_distribution": "dist", "invalid_seed_strategy": "seed"}.get(error.kind, "win")
    parameter = error.field.rpartition(".")[2]
    words = modifiers[name][0].arguments
    return next((word for word in words if word.text.startswith(f"{parameter}=")), words[0]).position


def read_policy(modifiers: Modifiers) -> Policy:
    if "policy" not in modifiers:
        return Policy()
    values = _pairs("policy", modifiers["policy"][0].arguments)
    for key, word in values.items():
        if key not in _POLICY:
            reason = f"unknown key, expected one of {', '.join(_POLICY)}"
            raise refusal("policy", key, reason, word.position, did_you_mean(key, tuple(_POLICY)))
        if not _POLICY[key](word.text):
            raise refusal("policy", word.text, _POLICY_REASONS[key], word.position)
    texts = {key: word.text for key, word in values.items()}
    return Policy(
        texts.get("concurrency", "forbid"),
        parse_duration(texts.get("deadline", "0s")) or timedelta(),
        texts.get("suspend") == "true",
        frozenset(texts),
    )


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
    if policy.concurrency != "forbid" or "concurrency" in policy.stated:
        values.append(f"concurrency={policy.concurrency}")
    if policy.deadline:
        values.append(f"deadline={format_duration(policy.deadline)}")
    if policy.suspend:
        values.append("suspend=true")
    return [f"@policy({','.join(values)})"] if values else []


def _window(modifier: Modifier) -> tuple[str, timedelta]:
    mode, *rest = modifier.arguments
    duration = parse_duration(rest[0].text) if len(rest) == 1 else None
    if duration is None:
        at = rest[0].position if rest else mode.position
        raise refusal("win", modifier.content.text, "expected a mode and a duration", at)
    return mode.text, duration


def _distribution(modifier: Modifier) -> Distribution:
    name, *rest = modifier.arguments
    return Distribution(name.text, {key: word.text for key, word in _pairs("dist", rest).items()})


def _seed(modifier: Modifier) -> tuple[str, str]:
    strategy, *rest = modifier.arguments
    values = _pairs("seed", rest)
    for key, word in values.items():
        if key != "salt":
            raise refusal("seed", modifier.content.text, "expected a strategy and salt=", word.position)
    return strategy.text, values["salt"].text if "salt" in values else ""


def _pairs(name: str, arguments: list[Word]) -> dict[str, Word]:
    """The values by key, unquoted; a word stands where its key begins."""
    values: dict[str, Word] = {}
    for argument, position in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key in values:
            raise refusal(name, argument, "expected key=value, each key once", position)
        values[key] = Word(_unquote(value), position)
    return values


def _unquote(value: str) -> str:
    quoted = _QUOTED.fullmatch(value)
    return re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else value


def _quote(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def refusal(field: str, value: str, reason: str, position: int, hint: str = "") -> KrontabError:
    text = clip(value)
    message = f"{field}: {reason}, got '{text}'"
    return KrontabError(message, field=field, value=text, position=position, hint=hint)

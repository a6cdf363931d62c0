"""Build the problems of the Chronex grammar, each with its code, field and message."""

from __future__ import annotations

from collections.abc import Sequence

from punctual.schedules import suggestions
from punctual.schedules.errors import Problem
from punctual.schedules.text import clip


def out_of_range(code: str, field: str, value: str, low: int, high: int, position: int) -> Problem:
    text = clip(value)
    message = f"{field}: value {text} out of range [{low}, {high}]"
    return Problem(code, field, message, text, position)


def bad_step(field: str, value: str, position: int) -> Problem:
    text = clip(value)
    return Problem("E007", field, f"{field}: step must be positive, got {text}", text, position)


def structure(reason: str, value: str = "", position: int = 0, hint: str = "") -> Problem:
    return Problem("E010", "expression", reason, clip(value), position, hint)


def field_count(count: int, value: str, position: int, hint: str) -> Problem:
    return structure(f"expected 5 or 6 fields, got {count}", value, position, hint)


def unknown_zone(name: str, position: int | None, hint: str = "") -> Problem:
    text = clip(name)
    return Problem("E011", "timezone", f"timezone: unknown timezone '{text}'", text, position, hint)


def bad_once(value: str, position: int, hint: str = "") -> Problem:
    text = clip(value)
    return Problem("E012", "once", f"once: invalid datetime format '{text}'", text, position, hint)


def dropped_fraction(value: str, position: int) -> Problem:
    message = f"once: the fraction of a second of '{value}' is dropped"
    return Problem("W002", "once", message, value, position)


def bad_every(value: str, position: int, hint: str) -> Problem:
    message = "every: duration must be positive"
    return Problem("E013", "every", message, clip(value), position, hint)


def bad_every_range(value: str, position: int) -> Problem:
    return Problem("E014", "every", "every: min duration must be less than max", clip(value), position)


def unknown_option(key: str, position: int, known: Sequence[str]) -> Problem:
    text = clip(key)
    hint = suggestions.did_you_mean(key, known)
    return Problem("E015", "options", f"options: unknown option '{text}'", text, position, hint)


def bad_option(key: str, expected: str, value: str, position: int) -> Problem:
    text = clip(value)
    message = f"options.{key}: expected {expected}, got '{text}'"
    hint = suggestions.for_duration(value) if expected == "duration" else ""
    return Problem("E016", f"options.{key}", message, text, position, hint)


def bad_relative_once(value: str, position: int) -> Problem:
    message = "once: relative duration must be positive"
    return Problem("E017", "once", message, clip(value), position, suggestions.for_duration(value[1:]))


def no_reference(value: str, position: int) -> Problem:
    message = "once: relative duration needs a reference time"
    return Problem("E017", "once", message, clip(value), position)


def only_bounds(key: str, position: int) -> Problem:
    text = clip(key)
    message = f"options: '{text}' belongs to Chronex; other kinds allow from and until"
    return Problem("E015", "options", message, text, position)


def empty_range(value: str, position: int) -> Problem:
    return Problem("E020", "options", "options: 'from' must be before 'until'", value, position)


def bad_max(value: str, position: int) -> Problem:
    text = clip(value)
    message = f"options.max: must be positive, got {text}"
    return Problem("E021", "options.max", message, text, position)


def not_positive(key: str, value: str, position: int) -> Problem:
    code = {"window": "E023", "stagger": "E024"}[key]
    return Problem(code, f"options.{key}", f"options.{key}: must be positive", value, position)


def large_jitter(value: str, position: int) -> Problem:
    message = f"options.jitter: {value} exceeds 50% of schedule interval"
    return Problem("E022", "options.jitter", message, value, position)


def large_stagger(value: str, position: int) -> Problem:
    message = f"options.stagger: {value} exceeds schedule interval"
    return Problem("E025", "options.stagger", message, value, position)


def duplicate_tag(tag: str, position: int) -> Problem:
    return Problem("W001", "options.tag", f"duplicate tag '{tag}'", tag, position)

"""A broken rule of the Chronex grammar in -> the finding with its code, field and message out."""

from __future__ import annotations

from schedules.errors import Problem
from schedules.text import clip


def out_of_range(code: str, field: str, value: str, low: int, high: int, position: int) -> Problem:
    shown = clip(value)
    message = f"{field}: value {shown} out of range [{low}, {high}]"
    return Problem(code, field, message, shown, position)


def bad_step(field: str, value: str, position: int) -> Problem:
    shown = clip(value)
    return Problem("E007", field, f"{field}: step must be positive, got {shown}", shown, position)


def structure(reason: str, value: str = "", position: int = 0) -> Problem:
    return Problem("E010", "expression", reason, clip(value), position)


def field_count(count: int, value: str, position: int) -> Problem:
    return structure(f"expected 5 or 6 fields, got {count}", value, position)


def unknown_zone(name: str, position: int | None) -> Problem:
    shown = clip(name)
    return Problem("E011", "timezone", f"timezone: unknown timezone '{shown}'", shown, position)


def bad_once(value: str, position: int) -> Problem:
    shown = clip(value)
    return Problem("E012", "once", f"once: invalid datetime format '{shown}'", shown, position)


def bad_every(value: str, position: int) -> Problem:
    return Problem("E013", "every", "every: duration must be positive", clip(value), position)


def bad_every_range(value: str, position: int) -> Problem:
    return Problem("E014", "every", "every: min duration must be less than max", clip(value), position)


def unknown_option(key: str, position: int) -> Problem:
    shown = clip(key)
    return Problem("E015", "options", f"options: unknown option '{shown}'", shown, position)


def bad_option(key: str, expected: str, value: str, position: int) -> Problem:
    shown = clip(value)
    message = f"options.{key}: expected {expected}, got '{shown}'"
    return Problem("E016", f"options.{key}", message, shown, position)


def bad_relative_once(value: str, position: int) -> Problem:
    return Problem("E017", "once", "once: relative duration must be positive", clip(value), position)


def no_reference(value: str, position: int) -> Problem:
    message = "once: relative duration needs a reference time"
    return Problem("E017", "once", message, clip(value), position)


def empty_range(value: str, position: int) -> Problem:
    return Problem("E020", "options", "options: 'from' must be before 'until'", value, position)


def bad_max(value: str, position: int) -> Problem:
    shown = clip(value)
    message = f"options.max: must be positive, got {shown}"
    return Problem("E021", "options.max", message, shown, position)


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

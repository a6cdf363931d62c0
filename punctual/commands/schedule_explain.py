"""`schedule explain`: whether a schedule text is valid, what it means, and when it fires next.

The verb needs no database.
"""

from argparse import ArgumentParser
from datetime import datetime

from django.core.management.base import CommandError
from django.utils import timezone

from punctual.commands.verb import Answer, Options, Row, Verb
from punctual.schedules import Explanation, explain

MAX_FIRES = 1000
MAX_ECHOED = 200  # characters of a wrong text that an error repeats


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("expression", help="Chronex by default; posix:, iso8601:, once:, kron: by prefix")
    parser.add_argument("--tz", help="IANA zone for a text without one (default UTC)")
    parser.add_argument("-n", dest="count", type=int, default=10, help="how many fires (default 10)")
    parser.add_argument("--after", help="ISO 8601 instant to look ahead from (default now)")


def run(options: Options) -> Answer:
    if not 0 <= options["count"] <= MAX_FIRES:
        raise CommandError(f"-n {options['count']}: expected 0 to {MAX_FIRES}")
    explanation = explain(
        options["expression"],
        after=_parse_after(options["after"]),
        timezone=options["tz"],
        count=options["count"],
    )

    def text(_row: Row) -> str:
        return "\n".join(_lines(explanation)) if explanation.is_valid else ""

    return Answer([explanation.to_dict()], text, single=True, refusal="\n".join(_error_lines(explanation)))


def _lines(explanation: Explanation) -> list[str]:
    fires = [
        f"  {fire.instant:%Y-%m-%d %H:%M:%S} UTC  {fire.local}{f'  [{fire.mark}]' if fire.mark else ''}"
        for fire in explanation.fires
    ]
    return [
        explanation.description,
        f"kind {explanation.kind}, zone {explanation.timezone}, canonical {explanation.canonical}",
        *(f"warning {warning.code}: {warning.message}" for warning in explanation.warnings),
        *(fires or ["  no further fires"]),
    ]


def _error_lines(explanation: Explanation) -> list[str]:
    """Return each error with a caret under its position in the text."""
    lines: list[str] = []
    for error in explanation.errors:
        lines.append(f"{error.code} {error.message}")
        if error.position is not None and "\n" not in explanation.text:
            lines += [
                f"  {explanation.text[:MAX_ECHOED]}",
                f"  {' ' * min(error.position, MAX_ECHOED)}^",
            ]
    return lines


def _parse_after(text: str | None) -> datetime:
    if text is None:
        return timezone.now()
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"--after {text!r}: expected an ISO 8601 instant") from None
    if instant.tzinfo is None:
        raise CommandError(f"--after {text!r}: expected an offset, as in 2026-03-07T00:00:00Z")
    return instant


VERBS = (
    Verb("explain", "validity, plain words, next fires with DST marks", run, arguments, system_checks=False),
)

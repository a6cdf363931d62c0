"""`manage.py schedule explain EXPR` → validity, plain words and the next fires; needs no database."""

import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone as django_timezone

from schedules import Explanation, ScheduleError, explain

MOST_FIRES = 1000
EXAMPLES = """examples:
  manage.py schedule explain "0 9 * * MON-FRI" --tz Europe/Berlin
  manage.py schedule explain "@every 90m {jitter:5m}" -n 3 --json
  manage.py schedule explain "30 2 * * *" --tz America/New_York --after 2026-03-07T00:00:00Z
"""


class Command(BaseCommand):
    help = "Say what a schedule text means and when it fires next."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        child = verbs.add_parser(
            "explain",
            help="validity, plain words, next fires with DST marks",
            epilog=EXAMPLES,
            formatter_class=RawDescriptionHelpFormatter,
        )
        child.add_argument("expression", help="Chronex by default; posix:, iso8601:, once:, kron: by prefix")
        child.add_argument("--tz", help="IANA zone for a text without one (default UTC)")
        child.add_argument("-n", dest="count", type=int, default=10, help="how many fires (default 10)")
        child.add_argument("--after", help="ISO 8601 instant to look ahead from (default now)")
        child.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        if not 0 <= options["count"] <= MOST_FIRES:
            raise CommandError(f"-n {options['count']}: expected 0 to {MOST_FIRES}")
        try:
            answer = explain(
                options["expression"],
                after=_after(options["after"]),
                timezone=options["tz"],
                count=options["count"],
            )
        except ScheduleError as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(answer.to_dict(), indent=2, ensure_ascii=False))
        elif answer.is_valid:
            self._show(answer)
        if not answer.is_valid:
            raise CommandError("\n".join(_pointed(answer)))

    def _show(self, answer: Explanation) -> None:
        self.stdout.write(answer.description)
        self.stdout.write(f"kind {answer.kind}, zone {answer.timezone}, canonical {answer.canonical}")
        for warning in answer.warnings:
            self.stdout.write(self.style.WARNING(f"warning {warning.code}: {warning.message}"))
        for fire in answer.fires:
            mark = f"  [{fire.mark}]" if fire.mark else ""
            self.stdout.write(f"  {fire.instant:%Y-%m-%d %H:%M:%S} UTC  {fire.local}{mark}")
        if not answer.fires:
            self.stdout.write("  no further fires")


def _pointed(answer: Explanation) -> list[str]:
    """Each error, with a caret under its place in the text."""
    lines: list[str] = []
    for problem in answer.errors:
        lines.append(f"{problem.code} {problem.message}")
        if problem.position is not None and "\n" not in answer.text:
            lines += [f"  {answer.text[:200]}", f"  {' ' * min(problem.position, 200)}^"]
    return lines


def _after(text: str | None) -> datetime:
    if text is None:
        return django_timezone.now()
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"--after {text!r}: expected an ISO 8601 instant") from None
    if found.tzinfo is None:
        raise CommandError(f"--after {text!r}: expected an offset, as in 2026-03-07T00:00:00Z")
    return found

"""`manage.py punctual`: parse the words, run the verb they name, print its rows as lines or as JSON."""

import json
import sys
from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from punctual.commands.catalog import GROUPS, SINGLE
from punctual.commands.help_examples import epilog_for
from punctual.commands.verb import Answer, Verb
from punctual.jobs.errors import PunctualError
from punctual.schedules import ScheduleError


class Command(BaseCommand):
    help = "Look at jobs and occurrences, act on them, check this installation."

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
        for group in GROUPS:
            group_parser = commands.add_parser(group.name, help=group.help)
            verbs = group_parser.add_subparsers(dest="verb", required=True, metavar="VERB")
            for verb in group.verbs:
                self._add_verb(verbs, verb, words=f"{group.name} {verb.name}")
        for verb in SINGLE:
            self._add_verb(commands, verb, words=verb.name)

    def _add_verb(self, parsers: Any, verb: Verb, *, words: str) -> None:
        parser = parsers.add_parser(verb.name, help=verb.help, description=verb.help, **epilog_for(words))
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.set_defaults(chosen=verb)
        verb.arguments(parser)

    def execute(self, *args: Any, **options: Any) -> str | None:
        if not options["chosen"].system_checks:
            options["skip_checks"] = True
        return super().execute(*args, **options)

    def handle(self, *args: Any, **options: Any) -> None:
        verb: Verb = options["chosen"]
        try:
            answer = verb.run(options)
            self._print(answer, as_json=options["json"])
        except (PunctualError, ScheduleError) as error:
            raise CommandError(str(error)) from error
        if answer.refusal:
            raise CommandError(answer.refusal)
        if code := answer.exit_code():
            sys.exit(code)

    def _print(self, answer: Answer, *, as_json: bool) -> None:
        if as_json:
            rows = list(answer.rows)
            document = rows[0] if answer.single else rows
            self.stdout.write(json.dumps(document, default=_json_text, indent=2, ensure_ascii=False))
            return
        empty = True
        for row in answer.rows:
            if text := answer.line(row):
                self.stdout.write(text)
            empty = False
        if answer.closing:
            self.stdout.write(answer.closing)
        elif empty:
            self.stderr.write("nothing found")  # not on standard output, where a program may count lines


def _json_text(value: object) -> str:
    """Write what JSON has no type for: instants as ISO 8601, other values as their text."""
    return value.isoformat() if isinstance(value, datetime) else str(value)

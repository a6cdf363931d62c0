"""Verbs → a management command: arguments parsed, rows shown as lines or as JSON, an exit code."""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from django.core.management.base import BaseCommand, CommandError, CommandParser

from jobs.errors import PunctualError
from jobs.verbs import Answer, Verb
from jobs.verbs.examples import shown_with
from schedules import ScheduleError


class AnsweringCommand(BaseCommand):
    """One command that does one thing: `verb` says what."""

    verb: ClassVar[Verb]

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser(prog_name, subcommand, **shown_with(subcommand), **kwargs)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print JSON")
        self.verb.arguments(parser)

    def handle(self, *_args: Any, **options: Any) -> None:
        self.run(self.chosen(options), options)

    def chosen(self, _options: Mapping[str, Any]) -> Verb:
        return self.verb

    def run(self, verb: Verb, options: Mapping[str, Any]) -> None:
        try:
            answer = verb.run(options)
            self.show(answer, as_json=options["json"])
        except (PunctualError, ScheduleError) as error:
            raise CommandError(str(error)) from error
        if code := answer.exit_code():
            sys.exit(code)

    def show(self, answer: Answer, *, as_json: bool) -> None:
        if as_json:
            rows = list(answer.rows)
            found = rows[0] if answer.single else rows
            self.stdout.write(json.dumps(found, default=_told, indent=2, ensure_ascii=False))
            return
        nothing = True
        for row in answer.rows:
            self.stdout.write(answer.line(row))
            nothing = False
        if answer.closing:
            self.stdout.write(answer.closing)
        elif nothing:
            self.stderr.write("nothing found")  # not among the lines, which a program may count


def _told(value: object) -> str:
    """What JSON has no word for: instants as ISO 8601, anything else as its text."""
    return value.isoformat() if isinstance(value, datetime) else str(value)


class VerbCommand(AnsweringCommand):
    """`manage.py NAME VERB …`: the first word chooses."""

    verbs: ClassVar[Mapping[str, Verb]]

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        machine = ArgumentParser(add_help=False)
        machine.add_argument("--json", action="store_true", help="print JSON")
        for verb in self.verbs.values():
            words = f"{parser.prog.split()[-1]} {verb.name}"
            one = verbs.add_parser(verb.name, help=verb.help, parents=[machine], **shown_with(words))
            verb.arguments(one)

    def chosen(self, options: Mapping[str, Any]) -> Verb:
        return self.verbs[options["verb"]]

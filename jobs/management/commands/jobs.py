"""`manage.py jobs VERB` → the same functions the admin uses; the verbs are in `jobs.verbs`."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from jobs.errors import PunctualError
from jobs.verbs import VERBS, Answer
from jobs.verbs import fleet as _fleet  # noqa: F401 - importing a verb's module connects it
from jobs.verbs import look as _look  # noqa: F401
from jobs.verbs import operate as _operate  # noqa: F401
from jobs.verbs import versions as _versions  # noqa: F401
from schedules import ScheduleError


class Command(BaseCommand):
    help = "Look at jobs, act on them, move whole fleets. Example: manage.py jobs trigger nightly-etl"

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        machine = ArgumentParser(add_help=False)
        machine.add_argument("--json", action="store_true", help="print JSON")
        for verb in VERBS.values():
            verb.arguments(verbs.add_parser(verb.name, help=verb.help, parents=[machine]))

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.show(VERBS[options["verb"]].run(options), as_json=options["json"])
        except (PunctualError, ScheduleError) as error:
            raise CommandError(str(error)) from error

    def show(self, answer: Answer, *, as_json: bool) -> None:
        if as_json:
            rows = list(answer.rows)
            found = rows[0] if answer.single else rows
            self.stdout.write(json.dumps(found, default=str, indent=2, ensure_ascii=False))
            return
        for row in answer.rows:
            self.stdout.write(answer.line(row))
        if answer.closing:
            self.stdout.write(answer.closing)

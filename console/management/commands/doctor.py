"""`manage.py doctor` → what is wrong with this installation, and what to do; exit code 1 if anything is."""

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand

from console.doctor import FAIL, OK, examined

EXAMPLES = """
examples:
  manage.py doctor               # one line per check
  manage.py doctor --json        # the same for a program
  manage.py doctor || page-me    # exit code 1 when something fails, 0 when there are only warnings
"""


class Command(BaseCommand):
    help = "Examine settings, clocks, database, migrations, broker, beats, workers and jobs."
    requires_system_checks = []  # it runs where things are broken

    def create_parser(self, *args: Any, **kwargs: Any) -> Any:
        return super().create_parser(
            *args, epilog=EXAMPLES, formatter_class=RawDescriptionHelpFormatter, **kwargs
        )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        found = list(examined(lambda: datetime.now(UTC)))
        if options["json"]:
            self.stdout.write(json.dumps([asdict(one) for one in found], indent=2, ensure_ascii=False))
        else:
            for one in found:
                self.stdout.write(f"{one.level:4}  {one.check:18}  {one.detail}")
                if one.advice and one.level != OK:
                    self.stdout.write(f"{'':26}→ {one.advice}")
        if any(one.level == FAIL for one in found):
            sys.exit(1)

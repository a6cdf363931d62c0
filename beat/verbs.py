"""`manage.py jobs import_beat`: the verb that beat brings to the command of `jobs`."""

from argparse import ArgumentParser
from collections import Counter

from beat.importing import ALREADY, IMPORTED, REFUSED, import_beat
from jobs.clock import database_now
from jobs.models import Origin
from jobs.verbs import Answer, Options, Row, Verb
from jobs.verbs.author import add_author, change_of


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="report what would happen, change nothing")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--disable", action="store_true", default=True, help="switch imported rows off (the default)"
    )
    which.add_argument(
        "--keep-enabled", dest="disable", action="store_false", help="leave them on: they fire twice"
    )
    add_author(parser)


def run(options: Options) -> Answer:
    now, dry_run = database_now(), options["dry_run"]
    author = change_of(options, origin=Origin.ADMIN, now=now, reason="").author
    reports = import_beat(author=author, now=now, dry_run=dry_run, switch_off=options["disable"])
    counts = Counter(report.fate for report in reports)
    summary = ", ".join(f"{counts[fate]:,} {fate}" for fate in (IMPORTED, REFUSED, ALREADY))
    closing = f"{summary} (dry run: nothing was written)" if dry_run else summary
    return Answer((vars(report) for report in reports), text, closing=closing)


def text(row: Row) -> str:
    off = "  switched off in django-celery-beat" if row["off"] else ""
    return f"{row['fate']}  {row['name']}  {row['reason'] or row['schedule']}{off}"


IMPORT_BEAT = Verb("import_beat", "make jobs of django-celery-beat's periodic tasks", run, arguments)

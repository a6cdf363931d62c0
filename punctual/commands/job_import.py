"""`jobs import_beat`: make jobs of django-celery-beat's periodic tasks."""

from argparse import ArgumentParser
from collections import Counter

from punctual.beat.periodic_tasks.importer import ALREADY, IMPORTED, REFUSED, import_beat
from punctual.commands.arguments import add_author, change_of
from punctual.commands.verb import Answer, Options, Row, Verb
from punctual.jobs.clock import database_now
from punctual.jobs.models import Origin


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


def import_periodic_tasks(options: Options) -> Answer:
    now, dry_run = database_now(), options["dry_run"]
    author = change_of(options, origin=Origin.ADMIN, now=now, reason="").author
    reports = import_beat(author=author, now=now, dry_run=dry_run, switch_off=options["disable"])
    counts = Counter(report.fate for report in reports)
    summary = ", ".join(f"{counts[fate]:,} {fate}" for fate in (IMPORTED, REFUSED, ALREADY))
    closing = f"{summary} (dry run: nothing was written)" if dry_run else summary
    return Answer((vars(report) for report in reports), report_text, closing=closing)


def report_text(row: Row) -> str:
    off = "  switched off in django-celery-beat" if row["off"] else ""
    return f"{row['fate']}  {row['name']}  {row['reason'] or row['schedule']}{off}"


VERBS = (
    Verb("import_beat", "make jobs of django-celery-beat's periodic tasks", import_periodic_tasks, arguments),
)

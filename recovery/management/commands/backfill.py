"""`manage.py backfill` → occurrences for instants of the past that have none."""

from jobs.verbs.command import AnsweringCommand
from recovery.verbs.chores import BACKFILL


class Command(AnsweringCommand):
    help = "Fill in past instants. Example: manage.py backfill etl --from 2026-01-01 --to 2026-01-31"
    verb = BACKFILL

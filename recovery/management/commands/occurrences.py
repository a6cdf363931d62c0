"""`manage.py occurrences` → occurrences listed, shown, canceled, skipped or replayed."""

from jobs.verbs.command import VerbCommand
from recovery.verbs.occurrences import VERBS


class Command(VerbCommand):
    help = "Look at occurrences and act on them. Example: manage.py occurrences list --job nightly-etl"
    verbs = VERBS

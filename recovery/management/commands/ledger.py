"""`manage.py ledger verify` → every instant that is missing, doubled or unexplained; exit code 1 if any."""

from jobs.verbs.command import VerbCommand
from recovery.verbs.ledger import VERBS


class Command(VerbCommand):
    help = (
        "Compare the ledger with what the schedules owe. Example: manage.py ledger verify --job nightly-etl"
    )
    verbs = VERBS

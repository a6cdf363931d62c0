"""`manage.py dlq` → dead letters listed, shown, replayed or purged."""

from jobs.verbs.command import VerbCommand
from recovery.verbs.deadletters import VERBS


class Command(VerbCommand):
    help = "Dead letters: runs that used up their attempts. Example: manage.py dlq list --groups"
    verbs = VERBS

"""`manage.py settle` → workers asked to settle what is over, and to call the hooks it owes."""

from jobs.verbs.command import AnsweringCommand
from recovery.verbs.chores import SETTLE


class Command(AnsweringCommand):
    help = "Have occurrences settled whose runs are over, and hooks called that are owed."
    verb = SETTLE

"""`manage.py prune` → finished occurrences beyond their job's retention deleted."""

from jobs.verbs.command import AnsweringCommand
from recovery.verbs.chores import PRUNE


class Command(AnsweringCommand):
    help = "Delete what is older than each job's retention; counters do not fall."
    verb = PRUNE

"""`manage.py recover` → what is owed planned, strategies applied, of all jobs or of one."""

from jobs.verbs.command import AnsweringCommand
from recovery.verbs.chores import RECOVER


class Command(AnsweringCommand):
    help = "Plan what was missed and apply each job's recovery strategy now."
    verb = RECOVER

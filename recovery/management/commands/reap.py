"""`manage.py reap` → one sweep of the safety net."""

from jobs.verbs.command import AnsweringCommand
from recovery.verbs.chores import REAP


class Command(AnsweringCommand):
    help = "Take back what dead workers held, resend what was lost, end what is overdue."
    verb = REAP

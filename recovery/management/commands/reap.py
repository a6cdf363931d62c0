"""`manage.py reap` → everything a sweep of the safety net would find, done."""

from jobs.verbs.command import AnsweringCommand
from recovery.verbs.chores import REAP


class Command(AnsweringCommand):
    help = "Take back what dead workers held, end what is overdue, resend what was lost, settle what is over."
    verb = REAP

"""`manage.py resend` → messages nobody confirmed, or that got lost, sent again."""

from jobs.verbs.command import AnsweringCommand
from recovery.verbs.chores import RESEND


class Command(AnsweringCommand):
    help = "Send again what the broker never confirmed, or has lost."
    verb = RESEND

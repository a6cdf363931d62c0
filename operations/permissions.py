"""The permissions that actions ask for, and the two groups that every database has.

Django stores a permission because a model's `Meta.permissions` declares it, and the migration `0002_groups`
gives it to the groups. Tests compare all three.
"""

from enum import StrEnum

READERS = "Punctual: read-only"  # may view everything
OPERATORS = "Punctual: operators"  # may also do everything below, and change the size of a pool


DELETE_JOB = "punctual.delete_job"  # Django's own: removing a definition is not operating it
# Who defines a job that sends Celery messages can make workers do anything: no group has this permission.
SEND_MESSAGES = "punctual.send_messages"


class Permission(StrEnum):
    TRIGGER_JOB = "punctual.trigger_job"
    PAUSE_JOB = "punctual.pause_job"
    CANCEL_OCCURRENCE = "punctual.cancel_occurrence"
    REPLAY_OCCURRENCE = "punctual.replay_occurrence"
    RESOLVE_DEAD_LETTERS = "punctual.resolve_taskrun"
    BACKFILL_JOB = "punctual.backfill_job"
    PRUNE_JOB = "punctual.prune_job"
    RECOVER_JOB = "punctual.recover_job"
    REAP_RUN = "punctual.reap_run"
    RESEND_RUN = "punctual.resend_run"
    SETTLE_OCCURRENCE = "punctual.settle_occurrence"

"""LOG_LEVEL → the level of Celery's programs, unless their own `--loglevel` says otherwise (OPS-6).

Celery overrules the settings with that option, also when nobody gives it: it is WARNING then, and half of the
catalogue of events would never be seen.
"""

from collections.abc import MutableMapping

import click

from scheduler_project import environment

OPTIONS = ("CELERY_BEAT_LOGLEVEL", "CELERY_WORKER_LOGLEVEL")  # click reads the options' defaults from them


def follow(env: MutableMapping[str, str]) -> None:
    """Only inside the program `celery`: what anybody else starts shall read its own LOG_LEVEL."""
    if click.get_current_context(silent=True) is not None:
        for option in OPTIONS:
            env.setdefault(option, environment.log_level(env))

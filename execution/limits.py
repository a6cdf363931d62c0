"""Django settings → how long workers wait for what. Defaults hold where a setting is missing."""

from dataclasses import dataclass, fields
from datetime import timedelta

from django.conf import settings


@dataclass(frozen=True)
class Limits:
    """Each is the Django setting `PUNCTUAL_` + its name in capitals."""

    lease: timedelta = timedelta(seconds=30)  # a claim not renewed for that long is lost
    kill_after: timedelta = timedelta(seconds=5)  # from the interruption of a function to its kill
    cancel_grace: timedelta = timedelta(seconds=10)  # from `ctx.canceled` to the interruption
    shutdown_grace: timedelta = timedelta(seconds=30)  # from SIGTERM to the hand-back of what still runs
    lost_after: timedelta = timedelta(seconds=30)  # a message that nobody took for that long is sent again


def limits() -> Limits:
    named = {field.name: f"PUNCTUAL_{field.name.upper()}" for field in fields(Limits)}
    given = {name: getattr(settings, setting, None) for name, setting in named.items()}
    return Limits(**{name: value for name, value in given.items() if value is not None})

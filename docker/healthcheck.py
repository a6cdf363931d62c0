"""Check the process of a container: exit code 0 if it works, 1 and one line if not."""

import os
import socket
import sys
import urllib.request
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

OLDEST_TICK = timedelta(seconds=30)
SITE = "http://127.0.0.1:8000"


def web(site: str = SITE) -> str:
    """Check that the web server answers."""
    with urllib.request.urlopen(f"{site}/healthz", timeout=3) as answer:  # noqa: S310  our own address
        return "" if answer.status == 200 else f"/healthz answers {answer.status}"  # noqa: PLR2004


def beat() -> str:
    """Check that the beat of this host ticks; beats of other hosts do not count."""
    _set_up_django()
    from punctual.execution.models import Process  # noqa: PLC0415  Django is ready only now
    from punctual.jobs.clock import database_now  # noqa: PLC0415

    beats = Process.objects.beats().filter(name__startswith=f"{socket.gethostname()}:")
    newest = beats.order_by("-seen_at").first()
    if newest is None:
        return "no beat of this host has signed in"
    age = database_now() - newest.seen_at
    return "" if age <= OLDEST_TICK else f"last tick {age.total_seconds():.0f} s ago"


def worker() -> str:
    """Check that the worker of this host answers through the broker."""
    _set_up_django()
    from scheduler_project.celery import app  # noqa: PLC0415

    name = f"celery@{socket.gethostname()}"
    answers = app.control.ping(destination=[name], timeout=3)
    return "" if answers else f"{name} does not answer"


def _set_up_django() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")
    import django  # noqa: PLC0415

    django.setup()


ROLES: dict[str, Callable[[], str]] = {"web": web, "beat": beat, "worker": worker}


def main(role: str) -> int | str:
    """Return 0, or the line that says what is wrong."""
    try:
        return ROLES[role]() or 0
    except Exception as error:  # noqa: BLE001  any error means that the container is not healthy
        return f"{role}: {type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

"""Celery's Django support → the same, but a usable database connection is kept from message to message.

Celery closes every connection before and after each task, whatever CONN_MAX_AGE says; opening one costs
PostgreSQL a process and the worker more time than the rest of a short message. Here Django's own rule
holds: closed when broken, too old, or left in the middle of a transaction; asked whether it still works
when it has been idle.
"""

import threading
import time
from typing import Any

from celery.fixups import django as celery_django
from django.db import connections

IDLE = 1.0  # seconds after which a connection is asked whether it still works

_typed: Any = celery_django  # celery-types knows an older Celery


class WorkerFixup(_typed.DjangoWorkerFixup):  # type: ignore[misc]  # Any, as said above
    def __init__(self, app: Any) -> None:
        super().__init__(app)
        self._last = threading.local()  # as the connections are

    def on_task_prerun(self, sender: Any, **_: Any) -> None:  # noqa: ARG002 - Celery passes it by name
        if time.monotonic() - getattr(self._last, "ended", 0.0) < IDLE:
            for connection in _open():
                connection.health_check_done = True

    def on_task_postrun(self, sender: Any, **_: Any) -> None:
        if getattr(sender.request, "is_eager", False):
            return
        for connection in _open():
            connection.close_if_unusable_or_obsolete()
        self.close_cache()
        self._last.ended = time.monotonic()


class Fixup(_typed.DjangoFixup):  # type: ignore[misc]  # Any, as said above
    _made: WorkerFixup | None = None

    @property
    def worker_fixup(self) -> WorkerFixup:
        # Not before it is asked for: it reads the application's settings.
        if self._made is None:
            self._made = WorkerFixup(self.app)
        return self._made


def fixup(app: Any) -> Fixup:
    made = Fixup(app)
    made.install()
    return made


def _open() -> list[Any]:
    return list(connections.all(initialized_only=True))

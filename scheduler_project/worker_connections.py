"""Keep a worker's database connection from message to message.

Celery closes every connection before and after each task, whatever CONN_MAX_AGE says. A new connection costs
PostgreSQL a process, and the worker more time than the rest of a short message. This fixup applies Django's
own rule instead: a connection is closed when it is broken, too old, or in the middle of a transaction, and it
is checked after it was idle.
"""

import threading
import time
from typing import Any

from celery.fixups import django as celery_django
from django.db import connections

MAX_UNCHECKED_IDLE = 1.0  # seconds; a connection that was idle for longer is checked

_typed: Any = celery_django  # celery-types knows an older Celery


class WorkerFixup(_typed.DjangoWorkerFixup):  # type: ignore[misc]  # Any, as said above
    def __init__(self, app: Any) -> None:
        super().__init__(app)
        self._last = threading.local()  # connections are per thread

    def on_task_prerun(self, sender: Any, **_: Any) -> None:  # noqa: ARG002 - Celery passes it by name
        if time.monotonic() - getattr(self._last, "ended", 0.0) < MAX_UNCHECKED_IDLE:
            for connection in _open_connections():
                connection.health_check_done = True

    def on_task_postrun(self, sender: Any, **_: Any) -> None:
        if getattr(sender.request, "is_eager", False):
            return
        for connection in _open_connections():
            connection.close_if_unusable_or_obsolete()
        self.close_cache()
        self._last.ended = time.monotonic()


class Fixup(_typed.DjangoFixup):  # type: ignore[misc]  # Any, as said above
    _worker_fixup: WorkerFixup | None = None

    @property
    def worker_fixup(self) -> WorkerFixup:
        # Created on first use: it reads the application's settings.
        if self._worker_fixup is None:
            self._worker_fixup = WorkerFixup(self.app)
        return self._worker_fixup


def fixup(app: Any) -> Fixup:
    fixup_ = Fixup(app)
    fixup_.install()
    return fixup_


def _open_connections() -> list[Any]:
    return list(connections.all(initialized_only=True))

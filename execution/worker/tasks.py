"""Receive messages: the Celery tasks of this package. Each parses its message and calls one step."""

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from uuid import UUID

from celery import shared_task
from celery.exceptions import Reject

from punctual.execution.broker.messages import RUN, SETTLE
from punctual.execution.supervision.board import board
from punctual.execution.worker.connection import own_connection
from punctual.execution.worker.work import settle_now, work


@shared_task(name=RUN, bind=True)
def run(self: Any, run_ids: list[str]) -> int:
    """Claim the runs of a message, call their functions, and report the results."""
    if board.stopping:
        raise Reject("the worker was told to stop", requeue=True)  # another worker takes it at once
    worker = f"{self.request.hostname or 'local'}/{os.getpid()}"
    with _connection(self.request):
        return work([UUID(id_) for id_ in run_ids], worker=worker)


@shared_task(name=SETTLE, bind=True)
def settle(self: Any, occurrence_id: str) -> int:
    """Settle an occurrence from its rows; sent as a chord's callback, and by the sweeper."""
    with _connection(self.request):
        return settle_now([UUID(occurrence_id)])


def _connection(request: Any) -> AbstractContextManager[None]:
    """Called without a message, a task belongs to its caller, who may have a transaction open."""
    return nullcontext() if request.called_directly or request.is_eager else own_connection()

"""Receive messages: the Celery tasks of this package. Each parses its message and calls one step."""

import os
from typing import Any
from uuid import UUID

from celery import shared_task
from celery.exceptions import Reject

from punctual.execution.broker.messages import RUN, SETTLE
from punctual.execution.supervision.board import board
from punctual.execution.worker.work import settle_now, work


@shared_task(name=RUN, bind=True)
def run(self: Any, run_ids: list[str]) -> int:
    """Claim the runs of a message, call their functions, and report the results."""
    if board.stopping:
        raise Reject("the worker was told to stop", requeue=True)  # another worker takes it at once
    worker = f"{self.request.hostname or 'local'}/{os.getpid()}"
    return work([UUID(id_) for id_ in run_ids], worker=worker)


@shared_task(name=SETTLE)
def settle(occurrence_id: str) -> int:
    """Settle an occurrence from its rows; sent as a chord's callback, and by the sweeper."""
    return settle_now([UUID(occurrence_id)])

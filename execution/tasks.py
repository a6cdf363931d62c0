"""Messages → work: the doors of a worker process. Parse, call one step; the step reads the clock."""

import os
from typing import Any
from uuid import UUID

from celery import shared_task
from celery.exceptions import Reject

from execution.messages import RUN, SETTLE
from execution.slots import board
from execution.work import settle_now, work


@shared_task(name=RUN, bind=True)
def run(self: Any, run_ids: list[str]) -> int:
    """Claim the runs a message carries, perform them, report; never raises for a task's sake."""
    if board.stopping:
        raise Reject("the worker was told to stop", requeue=True)  # another one takes it at once
    worker = f"{self.request.hostname or 'local'}/{os.getpid()}"
    return work([UUID(id_) for id_ in run_ids], worker=worker)


@shared_task(name=SETTLE)
def settle(occurrence_id: str) -> int:
    """A chord's callback, or the sweeper's request: look at the rows and take the next step."""
    return settle_now([UUID(occurrence_id)])

"""Celery's book of requests → the messages this worker has taken and not begun, with their runs.

A worker takes a few messages more than it has processes, so that none of them has to wait for the broker
between two short runs. Behind a long one such a message would wait although others are idle: it is
passed on (see `ahead`).
"""

import json
from uuid import UUID

from celery.worker import state

from execution.messages import RUN

Waiting = dict[str, tuple[UUID, ...]]  # by the message's id


def waiting() -> Waiting:
    try:
        begun = {request.id for request in tuple(state.active_requests)}
        reserved = [item for item in tuple(state.reserved_requests) if item.task.name == RUN]
    except RuntimeError:
        return {}  # the worker's own thread has just written into the book: look again next time
    return {item.id: _runs(item.body) for item in reserved if item.id not in begun}


def _runs(body: bytes | str) -> tuple[UUID, ...]:
    (run_ids,), *_ = json.loads(body)
    return tuple(UUID(id_) for id_ in run_ids)

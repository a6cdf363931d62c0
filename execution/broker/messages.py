"""Make Celery messages for runs, and for occurrences to settle. A message is named after its attempt."""

import json
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from celery import Signature, current_app

from punctual.execution.broker.bundling import Bundle
from punctual.occurrences.ids import attempt_id
from punctual.occurrences.outbox import Ready

RUN = "punctual.run"
SETTLE = "punctual.settle"


def run_message(bundle: Bundle, *, keep_result: bool = False) -> "Signature[Any]":
    options = run_options(bundle) | {"ignore_result": not keep_result}
    return _signature(RUN, ids_of(bundle), **options)


def settle_message(occurrence_id: UUID | str, label: str = "") -> "Signature[Any]":
    # Without ignore_result the sender subscribes to a result that no process reads.
    options = {"ignore_result": True, "argsrepr": label or f"(occ_{occurrence_id})", "kwargsrepr": "{}"}
    return _signature(SETTLE, str(occurrence_id), **options)


def run_options(bundle: Bundle) -> dict[str, Any]:
    """Celery's options for a message. All runs of a bundle have the same queue.

    There is no time limit: the supervisor knows which run of a message is running and since when. Celery
    would set a timer for each message and keep it until the limit, long after the message is done.
    """
    first = bundle[0]
    return {
        "task_id": message_id(first),
        "queue": first.queue,
        "ignore_result": True,
        # Flower and the worker's log show these instead of our task name and bare ids (OPS-5).
        "shadow": display_name(first),
        "argsrepr": bundle_label(bundle),
        "kwargsrepr": "{}",
    }


def create_message(run_ids: list[str], options: dict[str, Any]) -> Any:
    """A message of Celery's protocol, not yet encoded."""
    amqp: Any = current_app.amqp
    return amqp.create_task_message(
        name=RUN,
        args=(run_ids,),
        reply_to=current_app.thread_oid,
        create_sent_event=current_app.conf.task_send_sent_event,
        **options,
    )


def runs_in(body: bytes | str) -> tuple[UUID, ...]:
    """The runs that a message with this body carries."""
    (run_ids,), *_ = json.loads(body)
    return tuple(UUID(id_) for id_ in run_ids)


def message_id(run: Ready) -> str:
    return str(attempt_id(run.run_id, run.attempts_made))


def ids_of(bundle: Bundle) -> list[str]:
    return [run.run_id for run in bundle]


def display_name(run: Ready) -> str:
    return f"{run.job} / {run.task}"


def bundle_label(bundle: Bundle) -> str:
    return label(bundle[0], bundle[0].task, more=len(bundle) - 1)


def label(run: Ready, step: str, *, more: int = 0) -> str:
    others = f" and {more} more" if more else ""
    return f"({run.job} / {step} / {_format_instant(run.scheduled_for)}{others})"


@lru_cache(maxsize=1024)  # most runs of a batch have the same instant
def _format_instant(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"


def _signature(name: str, argument: object, **options: Any) -> "Signature[Any]":
    return current_app.signature(name, args=(argument,), options=options, immutable=True)

"""Runs and occurrences → Celery messages. A message's id is the attempt it will start."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from celery import Signature, current_app
from celery.utils import uuid
from kombu import Producer
from kombu.exceptions import OperationalError

from execution import posting
from execution.bundling import Bundle
from occurrences.ids import attempt_text
from occurrences.ready import Ready

RUN = "punctual.run"
SETTLE = "punctual.settle"
Texts = dict[str, list[str]]
MANY = 10  # messages; for fewer it does not pay to make a form of them


def publish_runs(bundles: Sequence[Bundle], producer: Producer, texts: Texts | None = None) -> None:
    """One message each; many of them at once where the broker is Redis."""
    if len(bundles) >= MANY and posting.usable(producer):
        made = written(bundles) if texts is None else texts
        for name, found in made.items():
            posting.post(producer, current_app.amqp.queues[name], found)
        bundles = [bundle for bundle in bundles if bundle[0].queue not in made]
    _published(bundles, producer)


def written(bundles: Sequence[Bundle]) -> Texts:
    """The messages as Redis keeps them, by queue; without those of queues that are more than a list."""
    queues: Any = current_app.amqp.queues
    simple = {name for name in {bundle[0].queue for bundle in bundles} if posting.plain(queues[name])}
    forms: dict[str, posting.Form] = {}
    texts: Texts = {name: [] for name in sorted(simple)}
    for bundle, tag in zip(bundles, posting.tags(len(bundles)), strict=True):
        first = bundle[0]
        if first.queue in simple:
            form = forms.get(first.queue) or forms.setdefault(first.queue, _form(bundle))
            texts[first.queue].append(form.filled(_letter(bundle), tag))
    return texts


def _form(bundle: Bundle) -> posting.Form:
    marks = {"task_id": posting.ID, "shadow": posting.NAME, "argsrepr": posting.LABEL}
    options = {**run_options(bundle), **marks}
    queue: Any = current_app.amqp.queues[options.pop("queue")]
    return posting.Form(_message([posting.RUN_ID], options), queue)


def _letter(bundle: Bundle) -> posting.Letter:
    first = bundle[0]
    told = label(first, first.task, more=len(bundle) - 1)
    return posting.Letter(_message_id(first), _ids(bundle), _name(first), told)


def publish_chord(bundles: Sequence[Bundle], callback: "Signature[Any]", producer: Producer) -> None:
    """What `chord(group(...), callback)` sends where Redis counts, without making each signature thrice.

    Measured with a hundred members: 0.2 ms each to make and to send, where that takes 1 ms.
    """
    group_id = uuid()
    callback.freeze(group_id=group_id)
    backend: Any = current_app.backend
    try:
        # Before the first member: the last one to end must know that it is.
        backend.set_chord_size(group_id, len(bundles))
    except backend.connection_errors as error:
        raise OperationalError("Redis, which counts a chord's members, does not answer") from error
    _published(bundles, producer, group_id=group_id, chord=callback)


def _published(bundles: Iterable[Bundle], producer: Producer, **chord: Any) -> None:
    """Made by Celery and handed over without what `apply_async` does for every single one.

    Measured with Redis: 60 µs a message, where `apply_async` takes 230 µs, most of it for asking again
    whether the queue is declared, whether the connection is there, and what is configured.
    """
    amqp: Any = current_app.amqp
    declared: set[str] = set()
    for index, bundle in enumerate(bundles):
        options = run_options(bundle)
        if chord:
            options |= {**chord, "group_index": index}
        name = options.pop("queue")
        message = _message(_ids(bundle), options)
        # The first message to a queue declares it, over a connection that may have to be made anew.
        first = name not in declared
        declared.add(name)
        queue = amqp.queues[name]
        declare = [queue] if first else []
        amqp.send_task_message(producer, RUN, message, queue=queue, declare=declare, retry=first)


def _message(run_ids: list[str], options: dict[str, Any]) -> Any:
    amqp: Any = current_app.amqp
    return amqp.create_task_message(
        name=RUN,
        args=(run_ids,),
        reply_to=current_app.thread_oid,
        create_sent_event=current_app.conf.task_send_sent_event,
        **options,
    )


def run_message(bundle: Bundle, *, in_chord: bool = False) -> "Signature[Any]":
    return _signature(RUN, _ids(bundle), **run_options(bundle, in_chord=in_chord))


def run_options(bundle: Bundle, *, in_chord: bool = False) -> dict[str, Any]:
    """All runs of a bundle have the same queue; the first one's attempt names the message.

    No time limit: the supervisor knows which run of a message is running and since when. Celery would set a
    timer for each message and keep it until the limit, long after the message is done.
    """
    first = bundle[0]
    return {
        "task_id": _message_id(first),
        "queue": first.queue,
        # A chord counts the results of its members.
        "ignore_result": not in_chord or counted_without_results(),
        # What Flower and the worker's log show instead of our own name and bare ids (OPS-5).
        "shadow": _name(first),
        "argsrepr": label(first, first.task, more=len(bundle) - 1),
        "kwargsrepr": "{}",
    }


def counted_without_results() -> bool:
    """Redis keeps what a chord's members return with their count; entries of their own would be read and
    written for each, and stay for as long as results are kept."""
    return str(current_app.conf.result_backend).startswith("redis")


def settle_message(occurrence_id: UUID | str, told: str = "") -> "Signature[Any]":
    # Without ignore_result the sender subscribes to a result nobody will read.
    told = told or f"(occ_{occurrence_id})"
    options = {"ignore_result": True, "argsrepr": told, "kwargsrepr": "{}"}
    return _signature(SETTLE, str(occurrence_id), **options)


def _signature(name: str, argument: object, **options: Any) -> "Signature[Any]":
    return current_app.signature(name, args=(argument,), options=options, immutable=True)


def label(run: Ready, step: str, *, more: int = 0) -> str:
    others = f" and {more} more" if more else ""
    return f"({run.job} / {step} / {_moment(run.scheduled_for)}{others})"


def _name(first: Ready) -> str:
    return f"{first.job} / {first.task}"


def _message_id(first: Ready) -> str:
    return attempt_text(first.run_id, first.attempts_made)


def _ids(bundle: Bundle) -> list[str]:
    return [run.run_id for run in bundle]


@lru_cache(maxsize=1024)  # those of a batch are mostly for the same instant
def _moment(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"

"""Messages that cannot be read: rejected, counted and logged; workers and their supervisors go on."""

import base64
import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from punctual.execution.models import Rejection
from tests.cluster import queues
from tests.cluster.processes import ALIAS, Cluster
from tests.cluster.scenarios import (
    attempt_summary,
    attempts,
    insert_due_jobs,
    outcome,
    prepare,
    wait_for_note,
    wait_until_settled,
)

pytestmark = [pytest.mark.cluster]

RUN, SETTLE = "punctual.run", "punctual.settle"
EMBED = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
VALID: Any = [[[str(uuid4())]], {}, EMBED]
MISSING = object()


def envelope(body: Any = VALID, **changes: Any) -> dict[str, Any]:
    """A message for a run that does not exist; `changes` replace headers, or parts of the envelope."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"lang": "py", "task": RUN, "id": str(uuid4()), "timelimit": [None, None]}
    message = {
        "body": base64.b64encode(text).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": headers,
        "properties": {
            "correlation_id": str(uuid4()),
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": "default"},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": str(uuid4()),
        },
    }
    for key, value in changes.items():
        part = message if key in message else headers
        part[key] = value
        if value is MISSING:
            del part[key]
    return message


ARGUMENTS: list[Any] = [[], [[]], [5], [None], ["abc"], [["abc"]], [[5]], [[None]], [VALID[0]], [{}], 7, None]
ARGUMENTS += [[[str(uuid4())], "more"], [[str(uuid4())] * 1000]]
KEYWORD_ARGUMENTS: list[Any] = [5, None, [], {"x": 1}]
EMBEDS: list[Any] = [5, [], {"chord": 5}, {"chord": {"task": "other"}}, {"callbacks": [5]}, {"chain": 5}]
BODIES: list[Any] = [5, None, "text", [], [[], {}], {"task": RUN, "args": 5}]


def malformed() -> Iterator[dict[str, Any]]:
    for args in ARGUMENTS:
        yield envelope([args, {}, EMBED])
    for kwargs in KEYWORD_ARGUMENTS:
        yield envelope([VALID[0], kwargs, EMBED])
    for embed in EMBEDS:
        yield envelope([VALID[0], {}, embed])
    for body in BODIES:
        yield envelope(body)
    for id_ in (MISSING, None, 5, [], {}, ""):
        yield envelope(id=id_)
    yield envelope(timelimit="soon")
    yield envelope(timelimit=["soon", None])
    yield envelope(stamped_headers=5)
    yield envelope(group=5)
    yield envelope(eta="never")
    yield envelope(expires=5)
    yield envelope(task=[])
    yield envelope([[5], {}, EMBED], task=SETTLE)
    yield envelope([[], {}, EMBED], task=SETTLE)
    # Protocol 1: everything is in the body.
    yield envelope({"task": RUN, "id": "x", "args": [5], "kwargs": {}}, task=MISSING)
    yield envelope({"task": RUN, "args": VALID[0], "kwargs": {}}, task=MISSING, id=MISSING)


def unreadable() -> Iterator[Any]:
    yield envelope(b"{not json")
    yield envelope(b"\xff\xfe")
    yield {**envelope(), "content-type": "application/x-python-serialize"}
    yield envelope(compression="unheard-of")
    yield envelope({"hello": "world"}, task=MISSING)
    # The envelope itself.
    yield 5
    yield []
    yield {**envelope(), "properties": {}}
    yield {**envelope(), "headers": []}
    yield {**envelope(), "headers": 5}
    yield {**envelope(), "body": 5}


def unknown() -> Iterator[dict[str, Any]]:
    yield envelope(task="punctual.nonsense")
    yield envelope(task="punctual.nonsense", id=MISSING)
    yield envelope({"task": "punctual.other", "id": "x", "args": [], "kwargs": {}}, task=MISSING)


def harmless() -> Iterator[dict[str, Any]]:
    """Work: for a run that does not exist there is nothing to do."""
    yield envelope()
    yield envelope([[str(uuid4())], {}, EMBED], task=SETTLE)
    yield envelope({"task": RUN, "id": "x", "args": VALID[0], "kwargs": {}}, task=MISSING)
    yield envelope([[[str(uuid4()), str(uuid4())]], {}, None])


def rejected() -> int:
    return sum(Rejection.objects.using(ALIAS).values_list("count", flat=True))


def counts() -> dict[str, int]:
    return dict(Rejection.objects.using(ALIAS).values_list("problem", "count"))


@pytest.mark.req("PRF-2")
def test_messages_that_cannot_be_read_are_counted_and_stop_nothing(cluster: Cluster) -> None:
    prepare(cluster, PUNCTUAL_LEASE="6s")
    worker = cluster.start_worker(concurrency=2)
    insert_due_jobs("long", metadata={"seconds": "12"}, lasts=1)
    wait_for_note(cluster, "long/begin")
    children = worker.children
    problems = {
        "malformed": list(malformed()),
        "unreadable": list(unreadable()),
        "unknown_task": list(unknown()),
    }
    expected = sum(map(len, problems.values())) + 1
    with queues.connect(cluster) as client:
        client.lpush("default", "{not even json")
        for messages in (*problems.values(), list(harmless())):
            for message in messages:
                client.lpush("default", json.dumps(message))
    cluster.wait_until(
        lambda: rejected() == expected,
        timeout=30,
        describe=lambda: (expected, counts(), list(Rejection.objects.using(ALIAS).values())),
    )
    insert_due_jobs("next", quick=3)
    wait_until_settled(cluster, "long", "next")

    (attempt,) = attempts("long")
    assert attempt.state == "success", attempt_summary("long")
    assert outcome("next") == "completed"
    assert rejected() == expected, "no message came back"
    assert queues.length(cluster, "default") == 0
    assert worker.children == children, "no process of the pool was lost"
    assert not cluster.log_lines("supervisor.failed", "connection to broker lost", "unrecoverable")
    assert len(cluster.log_lines("message.rejected")) == expected
    assert f"{expected} messages could not be read" in doctor(cluster)


def doctor(cluster: Cluster) -> str:
    try:
        return cluster.manage("punctual", "doctor")
    except AssertionError as failed:  # something else may be amiss on this machine
        return str(failed)

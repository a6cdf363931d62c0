from functools import partial
from typing import Any
from uuid import UUID

import pytest
from celery import chord, current_app, group
from kombu import Message

from punctual.execution.broker import brokers, redis
from punctual.execution.broker.messages import (
    RUN,
    SETTLE,
    Broker,
    label,
    run_message,
    settle_message,
)
from punctual.jobs.ids import attempt_id, occurrence_id, run_id, task_id
from punctual.occurrences.outbox import Ready
from tests.execution.conftest import NOW, configured
from tests.harness import Harness
from tests.occurrences.factories import a_job, an_occurrence

JOB = a_job("nightly", NOW)


def run(attempts_made: int = 0, **facts: Any) -> Ready:
    occurrence, task = occurrence_id(JOB.id, NOW), task_id(JOB.id, "load")
    plain = Ready(
        run_id=str(run_id(occurrence, task)),
        occurrence_id=str(occurrence),
        task_id=str(task),
        attempts_made=attempts_made,
        job=JOB.name,
        task="load",
        scheduled_for=NOW,
        mode="sequential",
        queue="default",
        task_timeout="5m",
        bundle=True,
    )
    return plain._replace(**facts)


def taken() -> dict[str, Any]:
    """The next message as a worker reads it, without the fields that identify the delivery.

    `apply_async` repeats two headers among the properties, where no code reads them.
    """
    ignored = {"delivery_tag", "argsrepr", "kwargsrepr"}
    with current_app.connection_for_read() as connection:
        queue: Any = current_app.amqp.queues["default"]
        message: Message = connection.SimpleQueue(queue).get_nowait()
        message.ack()
    properties = {key: value for key, value in message.properties.items() if key not in ignored}
    how = {"type": message.content_type, "encoding": message.content_encoding}
    return {"headers": message.headers, "properties": properties, "payload": message.payload, **how}


@pytest.mark.req("OCC-7", "OPS-5")
def test_messages_sent_together_read_exactly_as_celery_would_have_sent_them(queue: Harness) -> None:
    runs = [run(), run(2, task_timeout="90s")]
    with current_app.producer_or_acquire() as producer:
        Broker().publish([(item,) for item in runs], producer)
    for item in runs:
        run_message((item,)).apply_async()
    together, one_by_one = [taken(), taken()], [taken(), taken()]
    assert together == one_by_one
    ids = [str(attempt_id(UUID(item.run_id), item.attempts_made)) for item in runs]
    assert [message["headers"]["id"] for message in together] == ids


def members(count: int) -> tuple[list[dict[str, Any]], set[str]]:
    """The messages of one chord with their random ids replaced, and these ids."""
    messages = [taken() for _ in range(count)]
    drawn = {message["headers"]["group"] for message in messages}
    for message in messages:
        message["headers"]["group"] = "its group"
        options = message["payload"][2]["chord"]["options"]
        drawn.add(options["group_id"])
        options |= {"group_id": "its group", "task_id": "its callback"}
    return messages, drawn


@pytest.mark.req("EXE-1", "OPS-5")
def test_a_chord_reads_exactly_as_celery_would_have_sent_it(queue: Harness) -> None:
    bundles = [(run(), run(1)), (run(2, task_timeout="90s"),)]
    backend: Any = current_app.backend
    callback = partial(settle_message, run().occurrence_id, "(label)")
    with current_app.producer_or_acquire() as producer:
        redis.publish_chord(bundles, callback(), producer)
    ours, (group_id,) = members(2)
    chord(group(run_message(item) for item in bundles), callback()).apply_async()
    theirs, (their_group,) = members(2)
    assert ours == theirs
    sizes = [backend.client.get(backend.get_key_for_group(id_, ".s")) for id_ in (group_id, their_group)]
    assert sizes == [b"2", b"2"]
    # The same expiry as Celery's: the counter of a chord that never finishes must expire.
    left = [backend.client.ttl(backend.get_key_for_group(id_, ".s")) for id_ in (group_id, their_group)]
    assert left[0] == pytest.approx(left[1], abs=30)


@pytest.mark.req("OCC-7")
def test_a_message_is_named_after_the_attempt_it_will_start() -> None:
    for number in (0, 3):
        message = run_message((run(number),))
        assert message.options["task_id"] == str(attempt_id(UUID(run().run_id), number))
    assert (message.task, message.args) == (RUN, ([str(run().run_id)],))


@pytest.mark.req("EXE-5")
def test_a_message_carries_the_task_s_queue_and_no_time_limit() -> None:
    options = run_message((run(task_timeout="90s", queue="slow"),)).options
    assert "time_limit" not in options, "Celery would keep a timer for each, long after it is done"
    assert options["queue"] == "slow"


@pytest.mark.req("OPS-5")
def test_people_read_job_task_and_instant_instead_of_ids() -> None:
    assert run_message((run(),)).options["argsrepr"] == "(nightly / load / 2026-01-05T12:00:00Z)"
    assert run_message((run(),)).options["shadow"] == "nightly / load"
    assert settle_message(run().occurrence_id).options["argsrepr"].startswith("(occ_")
    assert label(run(), "settle") == "(nightly / settle / 2026-01-05T12:00:00Z)"


def test_no_message_leaves_a_result_unless_a_chord_is_counted_by_it() -> None:
    assert run_message((run(),)).options["ignore_result"] is True
    assert run_message((run(),), keep_result=True).options["ignore_result"] is False
    assert settle_message(run().occurrence_id).options["ignore_result"] is True


@pytest.mark.parametrize(
    ("store", "counted"), [("redis://", True), ("rpc://", False), ("cache+memory://", False)]
)
def test_only_redis_counts_chord_members_without_their_results(
    store: str,
    counted: bool,  # noqa: FBT001
) -> None:
    with configured(result_backend=store):
        assert redis.counts_chords() is counted


@pytest.mark.req("EXE-1")
@pytest.mark.parametrize(("store", "ignored"), [({}, True), ({"result_backend": "cache+memory://"}, False)])
def test_members_of_a_chord_leave_results_where_the_store_counts_by_them(
    queue: Harness,
    store: dict[str, str],
    ignored: bool,  # noqa: FBT001
) -> None:
    callback = settle_message(run().occurrence_id)
    with configured(**store), current_app.producer_or_acquire() as producer:
        brokers.publish_chord([(run(),), (run(1),)], callback, producer)
    assert [taken()["headers"]["ignore_result"] for _ in range(2)] == [ignored] * 2


def test_a_request_to_settle_takes_no_result_of_those_before_it() -> None:
    occurrence = an_occurrence(JOB, NOW)
    message = settle_message(occurrence.id)
    assert (message.task, message.args) == (SETTLE, (str(occurrence.id),))
    assert message.immutable
    assert run_message((run(),)).immutable


@pytest.mark.req("OPS-7")
def test_no_message_waits_in_the_broker() -> None:
    options = run_message((run(),)).options
    assert not {"eta", "countdown", "expires"} & options.keys()


@pytest.mark.req("OCC-7", "OPS-5")
def test_a_bundle_is_one_message_named_after_its_first_run() -> None:
    others = [run(run_id=str(run_id(occurrence_id(JOB.id, NOW), str(number)))) for number in range(2)]
    message = run_message((run(1), *others))
    assert message.args == ([str(item.run_id) for item in (run(), *others)],)
    assert message.options["task_id"] == str(attempt_id(UUID(run().run_id), 1))
    assert message.options["argsrepr"] == "(nightly / load / 2026-01-05T12:00:00Z and 2 more)"

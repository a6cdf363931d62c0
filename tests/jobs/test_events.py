import logging
import re

import pytest

from punctual.jobs.events import Event, emit, logger

pytestmark = pytest.mark.req("OPS-6")


def test_an_event_is_logged_with_its_name_and_its_facts(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="punctual"):
        emit(Event.ATTEMPT_LOST, run="run_1", worker="host/2")
    (record,) = caplog.records
    assert record.getMessage() == "attempt.lost run=run_1 worker=host/2"
    assert (record.levelno, vars(record)["event"]) == (logging.WARNING, "attempt.lost")
    assert vars(record)["facts"] == {"run": "run_1", "worker": "host/2"}


def test_an_event_below_the_level_is_not_formatted(caplog: pytest.LogCaptureFixture) -> None:
    class Untouchable:
        def __str__(self) -> str:
            raise AssertionError("formatted although no handler takes it")

    with caplog.at_level(logging.INFO, logger="punctual"):
        emit(Event.BEAT_TICKED, fact=Untouchable())
    assert caplog.records == []
    assert logger.name == "punctual"


def test_an_event_is_one_line_even_with_a_multi_line_error(caplog: pytest.LogCaptureFixture) -> None:
    emit(Event.HOOK_FAILED, error="one\n  two")
    assert caplog.records[0].getMessage() == "hook.failed error=one two"


@pytest.mark.parametrize("event", Event)
def test_every_event_is_named_subject_dot_event(event: Event) -> None:
    assert re.fullmatch(r"[a-z]+\.[a-z_]+", event)

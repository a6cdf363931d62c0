"""One record, two forms; the ids and facts of it are in both, and secrets in neither."""

import json
import logging
import os
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.conf import settings

from punctual.execution.worker.log_tail import RunIdsFilter
from punctual.jobs import redaction
from punctual.jobs.events import Event, IdsAdapter, emit, emit_error
from punctual.jobs.redaction import HIDDEN, RedactingFilter, hide_secret_args
from scheduler_project.log_format import Json, Plain
from tests.execution.worker.test_log_tail import capture_log

pytestmark = pytest.mark.req("OPS-6")

IDS = {"job": "etl", "task": "load", "occurrence": "occ_1", "run": "run_1", "attempt": 2}
LIBRARY = "some.library"


@pytest.fixture(params=["plain", "json"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def stream(form: str) -> Iterator[StringIO]:
    """A handler as the settings make it, on a stream that can be read."""
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Json() if form == "json" else Plain())
    for each in (RunIdsFilter(), RedactingFilter()):
        handler.addFilter(each)
    names = ("punctual", LIBRARY)
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(logging.INFO)
    yield stream
    for name in names:
        logging.getLogger(name).removeHandler(handler)
        logging.getLogger(name).setLevel(before[name])


def fail(*words: str) -> None:
    raise ValueError(*words)


def fields(stream: StringIO) -> dict[str, Any]:
    logged: dict[str, Any] = json.loads(stream.getvalue())
    return logged


@pytest.mark.parametrize("form", ["json"], indirect=True)
def test_an_event_is_an_object_with_a_field_for_each_fact(stream: StringIO) -> None:
    emit(Event.ATTEMPT_LOST, run="run_1", worker="host/2", count=3, gone=None)
    logged = fields(stream)
    assert logged.pop("at").endswith("Z")
    assert logged.pop("process").endswith(f":{os.getpid()}")
    assert logged == {
        "level": "warning", "logger": "punctual", "event": "attempt.lost",
        "run": "run_1", "worker": "host/2", "count": 3, "gone": None,
    }  # fmt: skip


@pytest.mark.parametrize("form", ["plain"], indirect=True)
def test_an_event_is_a_readable_line(stream: StringIO) -> None:
    emit(Event.ATTEMPT_LOST, run="run_1", worker="host/2")
    assert stream.getvalue().endswith("WARNING punctual  attempt.lost run=run_1 worker=host/2\n")


def test_a_function_s_line_carries_the_ids_of_its_run(stream: StringIO, form: str) -> None:
    logger = IdsAdapter(logging.getLogger("punctual.task.etl.load"), {"ids": IDS})
    logger.info("copied %d", 7, extra={"mine": 1})
    if form == "json":
        assert {**IDS, "message": "copied 7"}.items() <= fields(stream).items()
    else:
        assert stream.getvalue().endswith("punctual.task.etl.load  copied 7 run=run_1 attempt=2\n")


def test_a_line_of_a_library_carries_the_ids_too(stream: StringIO, form: str) -> None:
    with capture_log(lambda: IDS):
        logging.getLogger(LIBRARY).info("connected")
    logging.getLogger(LIBRARY).info("afterwards")
    first, second = stream.getvalue().splitlines()
    assert "run_1" in first
    assert "run_1" not in second


def test_the_ids_are_made_only_when_something_is_logged() -> None:
    def never() -> dict[str, object]:
        raise AssertionError("not needed")

    with capture_log(never):
        pass


@pytest.mark.req("OPS-7")
def test_no_fact_no_message_and_no_traceback_shows_a_secret(stream: StringIO, form: str) -> None:
    word = settings.SECRET_KEY
    with hide_secret_args({"pin": "12345"}, {"secret_args": ["pin"]}):
        try:
            fail(word, "12345")
        except ValueError:
            emit_error(Event.HOOK_FAILED, error=f"{word} 12345", address="redis://u:wordy@h/0")
    text = stream.getvalue()
    assert HIDDEN in text
    assert "ValueError" in text
    assert not any(one in text for one in (word, "12345", "wordy"))


@pytest.mark.parametrize("form", ["json"], indirect=True)
def test_an_error_is_one_line_too(stream: StringIO) -> None:
    try:
        fail("lines\nof text")
    except ValueError:
        logging.getLogger(LIBRARY).exception("it went wrong")
    assert fields(stream)["exception"].startswith("Traceback")
    assert stream.getvalue().count("\n") == 1


def test_the_settings_use_these_and_know_their_secrets() -> None:
    handlers: Any = settings.LOGGING["handlers"]
    assert handlers["console"]["filters"] == ["ids", "redaction"]
    assert settings.SECRET_KEY in redaction.settings_secrets()

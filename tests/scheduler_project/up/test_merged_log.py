import io
import json

import pytest

from scheduler_project.up.merged_log import MergedLog


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class ClosedPipe(io.StringIO):
    def flush(self) -> None:
        raise BrokenPipeError


def test_every_line_is_led_by_its_programs_name_in_one_width() -> None:
    stream = io.StringIO()
    log = MergedLog(stream, ["web", "worker-1"])
    log.say("started")
    log.write("web", ["listening"])
    log.write("worker-1", ["ready", "", "task received"])
    assert stream.getvalue().splitlines() == [
        "up       | started",
        "web      | listening",
        "worker-1 | ready",
        "worker-1 | task received",
    ]


def test_colour_is_for_terminals_only() -> None:
    stream = Terminal()
    MergedLog(stream, ["web", "beat"]).write("beat", ["tick"])
    assert stream.getvalue() == "\x1b[33mbeat | \x1b[0mtick\n"


@pytest.mark.req("OPS-1")
def test_a_closed_reader_sets_lost_and_does_not_raise() -> None:
    log = MergedLog(ClosedPipe(), ["web"])
    assert not log.lost
    log.write("web", ["hello"])
    assert log.lost
    log.write("web", ["again"])


@pytest.mark.req("OPS-6")
def test_as_json_every_line_is_an_object_that_names_its_program() -> None:
    stream = io.StringIO()
    log = MergedLog(stream, ["web"], as_json=True)
    log.say("started")
    log.write("web", ['{"event": "jobs.synced", "beat": "b"}', "printed", '["no object"]'])
    assert [json.loads(line) for line in stream.getvalue().splitlines()] == [
        {"program": "up", "message": "started"},
        {"program": "web", "event": "jobs.synced", "beat": "b"},
        {"program": "web", "message": "printed"},
        {"program": "web", "message": '["no object"]'},
    ]

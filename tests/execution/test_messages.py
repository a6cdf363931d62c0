import pytest

from execution.messages import HARD_LIMIT_MARGIN, RUN, SETTLE, label, run_message, settle_message
from occurrences.ids import attempt_id
from occurrences.models import TaskRun
from tests.execution.conftest import NOW
from tests.occurrences.ledger import a_job, a_run, a_task, an_occurrence

JOB = a_job("nightly", NOW)


def run(attempts_made: int = 0, **policy: object) -> TaskRun:
    return a_run(an_occurrence(JOB, NOW), a_task(JOB, "load"), attempts_made=attempts_made, policy=policy)


@pytest.mark.req("OCC-7")
def test_a_message_is_named_after_the_attempt_it_will_start() -> None:
    for number in (0, 3):
        message = run_message(run(number))
        assert message.options["task_id"] == str(attempt_id(run().id, number))
    assert (message.task, message.args) == (RUN, ([str(run().id)],))


@pytest.mark.req("EXE-5")
def test_a_message_carries_the_task_s_own_time_limits_and_queue() -> None:
    options = run_message(run(task_timeout="90s", queue="slow")).options
    assert (options["soft_time_limit"], options["time_limit"]) == (90.0, 90.0 + HARD_LIMIT_MARGIN)
    assert options["queue"] == "slow"


@pytest.mark.req("OPS-5")
def test_people_read_job_task_and_instant_instead_of_ids() -> None:
    assert run_message(run()).options["argsrepr"] == "(nightly / load / 2026-01-05T12:00:00Z)"
    assert label(run(), "settle") == "(nightly / settle / 2026-01-05T12:00:00Z)"


def test_only_members_of_a_chord_leave_a_result() -> None:
    assert run_message(run()).options["ignore_result"] is True
    assert run_message(run(), in_chord=True).options["ignore_result"] is False
    assert settle_message(run().occurrence_id).options["ignore_result"] is True


def test_a_request_to_settle_takes_no_result_of_those_before_it() -> None:
    occurrence = an_occurrence(JOB, NOW)
    message = settle_message(occurrence.id)
    assert (message.task, message.args) == (SETTLE, (str(occurrence.id),))
    assert message.immutable
    assert run_message(run()).immutable


@pytest.mark.req("OPS-7")
def test_no_message_waits_in_the_broker() -> None:
    options = run_message(run()).options
    assert not {"eta", "countdown", "expires"} & options.keys()

"""Actions on jobs: one summary for many, a line for each unchanged job, a log line for each changed one."""

from datetime import datetime
from typing import Any

import pytest

from punctual.jobs.clock import database_now
from punctual.jobs.models import Job
from punctual.operations.action import Call
from punctual.operations.job_actions import PAUSE, RESUME, RUN
from punctual.recovery.requester import Requester
from tests.console.ledger_rows import make_job

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]


@pytest.fixture
def now(db: None) -> datetime:
    return database_now()


class Log:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def __call__(self, row: Any, message: str) -> None:
        self.lines.append((row.name, message))


def test_many_jobs_share_one_summary_and_each_other_job_has_its_line(now: datetime) -> None:
    jobs = [make_job("one", now), make_job("two", now, paused_at=now), make_job("gone", now, removed_at=now)]
    log = Log()
    result = PAUSE.execute(Call(jobs, now), Requester("ada", "maintenance", log))
    assert (result.count, result.message) == (1, "1 job paused.")
    assert result.notes == ("“two” was paused already.",)
    assert result.problems == ("“gone” is no longer registered.",)
    assert log.lines == [("one", "Paused: maintenance")]


def test_one_job_has_its_own_message(now: datetime) -> None:
    job = make_job("one", now, paused_at=now)
    result = RESUME.execute(Call([job], now, {"backlog": "none"}), Requester("ada"))
    assert result.count == 1
    assert result.message.startswith("“one” runs again")
    assert not Job.objects.get().paused


def test_a_job_of_a_polling_scheduler_is_a_problem_and_not_an_exception(now: datetime) -> None:
    result = RUN.execute(Call([make_job("polled", now, origin="polling")], now), Requester("ada"))
    assert result.count == 0
    assert "polling scheduler" in result.problems[0]


def test_a_preview_names_the_first_jobs_and_counts_the_rest(now: datetime) -> None:
    jobs = [make_job(f"job {number:02}", now) for number in range(12)]
    preview = PAUSE.preview(Call(jobs, now))
    assert (preview.counted, preview.counted_unit) == ("12", "jobs")
    ((_, names),) = preview.facts
    assert str(names).endswith("job 09 and 2 more")

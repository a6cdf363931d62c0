"""The pytest fixture `punctual`, used as in users' tests."""

from datetime import UTC, datetime

import pytest
from celery import current_app

from punctual import Context, Job, Retry, scheduled
from punctual.jobs.declaration.registry import registry
from punctual.testing import Harness, punctual

__all__ = ["punctual"]  # the fixture; users load it as a plugin


@pytest.mark.req("JOB-3")
def test_a_job_runs_without_a_broker_and_without_waiting(punctual: Harness) -> None:
    sent: list[datetime] = []
    with registry.isolated():

        @scheduled("0 9 * * *")
        def morning_report(ctx: Context) -> None:
            sent.append(ctx.scheduled_for)

        punctual.start_at("2026-01-05 08:59 UTC")
        punctual.live(minutes=2)

    assert sent == [datetime(2026, 1, 5, 9, tzinfo=UTC)]
    assert punctual.states("morning_report") == ["completed", "pending"]


def test_retries_and_crashes_can_be_simulated(punctual: Harness) -> None:
    with registry.isolated():
        job = Job("etl", "@hourly", mode="parallel", retry=Retry(2, "10s"))

        @job.task
        def flaky(ctx: Context) -> None:
            if ctx.attempt == 0:
                raise ConnectionError

        @job.task
        def steady(ctx: Context) -> None: ...

        punctual.start_at("2026-01-05T08:59:59+00:00")
        punctual.tick()
        punctual.pass_time(seconds=1)
        punctual.tick()
        punctual.crash_worker()
        punctual.live(minutes=2)

    assert punctual.states("etl")[0] == "completed"
    assert sorted(row.state for row in punctual.attempts("etl"))[:1] in (["failed"], ["lost"])


def test_an_instant_without_a_zone_is_refused(punctual: Harness) -> None:
    with pytest.raises(ValueError, match="say which zone"):
        punctual.start_at("2026-01-05 08:59")


def test_a_crash_without_a_message_is_an_error(punctual: Harness) -> None:
    with pytest.raises(LookupError, match="no message"):
        punctual.crash_worker()


def test_the_broker_is_restored_afterwards(request: pytest.FixtureRequest) -> None:
    before = current_app.conf.broker_url
    harness = request.getfixturevalue("punctual")
    assert isinstance(harness, Harness)
    assert current_app.conf.broker_url == "memory://" != before

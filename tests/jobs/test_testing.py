"""The harness users get, used the way they would."""

from datetime import UTC, datetime

import pytest
from celery import current_app

from jobs import Context, Job, Retry, scheduled
from jobs.registry import registry
from jobs.testing import Harness, punctual

__all__ = ["punctual"]  # the fixture; users name the plugin instead


@pytest.mark.req("JOB-3")
def test_a_job_is_driven_by_hand_without_a_broker_or_a_wait(punctual: Harness) -> None:
    sent: list[datetime] = []
    with registry.isolated():

        @scheduled("0 9 * * *")
        def morning_report(ctx: Context) -> None:
            sent.append(ctx.scheduled_for)

        punctual.start_at("2026-01-05 08:59 UTC")
        punctual.live(minutes=2)

    assert sent == [datetime(2026, 1, 5, 9, tzinfo=UTC)]
    assert punctual.states("morning_report") == ["completed", "pending"]


def test_retries_and_crashes_can_be_played_through(punctual: Harness) -> None:
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


def test_a_moment_without_a_zone_is_refused(punctual: Harness) -> None:
    with pytest.raises(ValueError, match="say which zone"):
        punctual.start_at("2026-01-05 08:59")


def test_crashing_without_a_message_says_so(punctual: Harness) -> None:
    with pytest.raises(LookupError, match="no message"):
        punctual.crash_worker()


def test_the_broker_is_put_back_afterwards(request: pytest.FixtureRequest) -> None:
    before = current_app.conf.broker_url
    harness = request.getfixturevalue("punctual")
    assert isinstance(harness, Harness)
    assert current_app.conf.broker_url == "memory://" != before

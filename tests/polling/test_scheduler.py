"""`Scheduler` in real time: heartbeat, threads that end with `stop`, and the program of the docs."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from threading import enumerate as threads
from typing import Any

import pytest

from punctual.occurrences import transitions
from punctual.occurrences.models import Attempt, TaskRun
from punctual.occurrences.states import Reason
from punctual.polling import Registration, Scheduler
from punctual.polling.errors import SchedulerOptionError
from punctual.polling.scheduler import Phase
from punctual.polling.scheduler_events import SchedulerEvent
from tests.polling.properties import check
from tests.polling.trace import Recorder

pytestmark = pytest.mark.usefixtures("transactional_db")

DOCS = Path(__file__).resolve().parents[2] / "docs" / "polling.md"
TIMEOUT = 20.0


def registered(callback: Callable[[], Awaitable[None]], *, delay: float = 60) -> Registration:
    return Registration("task", "* * * * *", callback, timedelta(seconds=delay))


def wait_until(question: Callable[[], object], describe: str) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not question():
        assert time.monotonic() < deadline, describe
        time.sleep(0.01)


class InThread:
    """Run a coroutine in its own event loop and thread, so that the test can query the database."""

    def __init__(self, main: Callable[[], Any]) -> None:
        self._thread = Thread(target=lambda: asyncio.run(main()))

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive()


@pytest.mark.req("POL-8")
def test_the_trace_of_a_real_run_satisfies_the_properties() -> None:
    recorder = Recorder(lambda: datetime.now(UTC))
    tries: list[int] = []
    done = asyncio.Event()

    async def third_time_lucky() -> None:
        tries.append(len(tries))
        if len(tries) < 3:
            raise ValueError("not yet")
        done.set()

    async def main() -> None:
        scheduler = Scheduler(listener=recorder)
        await scheduler.initialize([registered(third_time_lucky, delay=0)])
        async with asyncio.timeout(TIMEOUT):
            await done.wait()
        await scheduler.stop()
        assert scheduler.phase is Phase.STOPPED

    asyncio.run(main())
    assert check(recorder.trace()) == []
    assert [row.state for row in Attempt.objects.order_by("started_at")] == ["failed", "failed", "success"]


@pytest.mark.req("POL-5")
def test_no_thread_or_connection_is_left_after_stop() -> None:
    async def main() -> None:
        scheduler = Scheduler()
        for _ in range(2):
            await scheduler.initialize([registered(nothing)])
            await scheduler.stop()

    asyncio.run(main())
    wait_until(
        lambda: not [item for item in threads() if item.name.startswith("punctual")], "threads have ended"
    )


async def nothing() -> None: ...


@pytest.mark.req("POL-5")
def test_an_initialize_after_a_concurrent_stop_has_a_heartbeat() -> None:
    async def main() -> None:
        started, go_on, scheduler = asyncio.Event(), asyncio.Event(), Scheduler()

        async def wait() -> None:
            started.set()
            await go_on.wait()

        await scheduler.initialize([registered(wait)])
        await started.wait()
        stopping = asyncio.create_task(scheduler.stop())
        starting = asyncio.create_task(scheduler.initialize([registered(wait)]))
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(stopping, starting)
        assert "punctual-heartbeat" in {item.name for item in threads()}
        await scheduler.stop()

    asyncio.run(main())


@pytest.mark.req("POL-4")
def test_a_callback_that_blocks_the_event_loop_keeps_its_claim() -> None:
    go_on = Event()

    async def block() -> None:
        go_on.wait(TIMEOUT)

    async def main() -> None:
        scheduler = Scheduler(lease=timedelta(seconds=0.3))
        await scheduler.initialize([registered(block)])
        await asyncio.to_thread(go_on.wait, TIMEOUT)
        await scheduler.stop()

    with InThread(main):
        wait_until(TaskRun.objects.exists, "the callback has started")
        first = TaskRun.objects.get().lease_until
        assert first is not None
        wait_until(
            TaskRun.objects.filter(lease_until__gt=first + timedelta(seconds=0.3)).exists,
            "the lease was renewed, again and again",
        )
        go_on.set()
    assert [row.state for row in Attempt.objects.all()] == ["success"]


@pytest.mark.req("POL-4")
def test_the_heartbeat_cancels_a_callback_that_lost_its_claim() -> None:
    events: list[SchedulerEvent] = []
    canceled = Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            canceled.set()

    async def main() -> None:
        scheduler = Scheduler(
            lease=timedelta(seconds=0.3), listener=lambda event, _facts: events.append(event)
        )
        await scheduler.initialize([registered(endless)])
        await asyncio.to_thread(canceled.wait, TIMEOUT)
        await scheduler.stop()

    with InThread(main):
        wait_until(TaskRun.objects.exists, "the callback has started")
        transitions.cancel([TaskRun.objects.get().id], reason=Reason.OPERATOR, now=datetime.now(UTC))
        assert canceled.wait(TIMEOUT)
    assert SchedulerEvent.CLAIM_LOST in events
    assert SchedulerEvent.RUN_COMPLETED not in events


def test_the_zone_is_django_s_unless_given(settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Madrid"
    assert Scheduler()._lifecycle.engine.dependencies.zone == "Europe/Madrid"
    assert Scheduler(timezone="Asia/Tokyo")._lifecycle.engine.dependencies.zone == "Asia/Tokyo"


@pytest.mark.req("POL-6")
@pytest.mark.parametrize(
    ("options", "field", "reason"),
    [
        ({"lease": timedelta()}, "lease", "0.1 seconds to 366 days"),
        ({"lease": timedelta(seconds=-1)}, "lease", "0.1 seconds to 366 days"),
        ({"lease": 30}, "lease", "expected a timedelta"),
        ({"timezone": "Asia"}, "timezone", "expected an IANA zone such as Europe/Berlin"),
        ({"timezone": "../etc/passwd"}, "timezone", "expected an IANA zone"),
        ({"timezone": "Europe/Nowhere"}, "timezone", "expected an IANA zone"),
        ({"timezone": ""}, "timezone", "expected an IANA zone"),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_allowed(
    options: dict[str, Any], field: str, reason: str
) -> None:
    with pytest.raises(SchedulerOptionError, match=reason) as refused:
        Scheduler(**options)
    assert (refused.value.details["field"], refused.value.details["value"]) == (field, options[field])


@pytest.mark.req("POL-5")
def test_the_program_in_the_documentation_does_what_the_page_says() -> None:
    names: dict[str, Any] = {"__name__": "docs.polling"}
    (program, *more) = [part.split("```")[0] for part in DOCS.read_text().split("```python\n")[1:]]
    exec(compile(program, str(DOCS), "exec"), names)  # noqa: S102 - the project's own documentation

    async def run_it() -> None:
        stopped = asyncio.Event()
        running = asyncio.create_task(names["main"](stopped))
        await asyncio.to_thread(wait_until, lambda: "prices" in names["seen"], "it was called")
        stopped.set()
        await running

    asyncio.run(run_it())
    assert names["seen"].count("prices") >= 1
    assert Attempt.objects.filter(run__task__name="refresh-prices", state="success").exists()
    for example in more:
        exec(compile(example, str(DOCS), "exec"), names)  # noqa: S102


@pytest.mark.req("POL-7")
def test_the_documentation_names_every_event_and_error() -> None:
    page = DOCS.read_text()
    assert [signal for signal in SchedulerEvent if f"`{signal}`" not in page] == []

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from punctual import DefinitionError, Job, Retry, scheduled
from punctual.jobs.declaration.registry import Registry, registry
from punctual.jobs.definition.document import MAX_NAME_LENGTH


@pytest.fixture(autouse=True)
def declared() -> Iterator[Registry]:
    with registry.isolated():
        yield registry


def noop(ctx: object) -> None: ...


def without_arguments() -> None: ...


def with_two(ctx: object, other: object) -> None: ...


def with_keyword(*, ctx: object) -> None: ...


class Worker:
    def run(self, ctx: object) -> None: ...

    @staticmethod
    def static(ctx: object) -> None: ...

    def __call__(self, ctx: object) -> None: ...


def twin() -> Callable[[object], None]:
    def inner(ctx: object) -> None: ...

    return inner


@pytest.mark.req("JOB-3")
def test_one_decorator_declares_a_job_with_one_task_and_returns_the_function() -> None:
    decorated = scheduled("*/5 * * * *", retry=Retry(1, "5s"), metadata={"team": "data"})(noop)

    assert decorated is noop
    job = registry.jobs["noop"]
    assert (job.schedule, job.metadata, list(job.config)) == ("*/5 * * * *", {"team": "data"}, ["retry"])
    (task,) = job.tasks
    assert (task.name, task.function, task.config) == ("noop", f"{__name__}.noop", {})
    assert registry.functions[task.function].call is noop


@pytest.mark.req("JOB-3")
def test_tasks_keep_their_order_names_and_overrides() -> None:
    job = Job("etl", "@hourly", mode="parallel")

    @job.task
    def extract(ctx: object) -> None: ...

    @job.task(name="load it", transactional=True, retry=Retry(0), queue="slow")
    def load(ctx: object) -> None: ...

    assert [task.name for task in job.tasks] == ["extract", "load it"]
    assert list(job.tasks[1].config) == ["queue", "retry"]
    assert registry.functions[job.tasks[1].function].transactional


@pytest.mark.req("EXE-6")
def test_an_async_function_cannot_be_transactional() -> None:
    async def load(ctx: object) -> None: ...

    job = Job("job", "@hourly")
    with pytest.raises(DefinitionError, match="job/load: transactional=True: an async function cannot be"):
        job.task(transactional=True)(load)
    assert (job.tasks, registry.functions) == ((), {})


@pytest.mark.parametrize("metadata", [{"a\0": "b"}, {"a": "b\0"}, {"a": "\ud800"}])
def test_metadata_that_the_database_cannot_store_is_refused(metadata: dict[str, str]) -> None:
    with pytest.raises(DefinitionError, match="NUL and lone surrogates"):
        Job("job", "@hourly", metadata=metadata)
    assert registry.jobs == {}


def with_default(ctx: object, more: int = 1) -> None: ...


def with_any(*args: object) -> None: ...


@pytest.mark.parametrize("call", [lambda _: None, noop, with_default, with_any])
def test_a_function_that_can_be_called_with_the_context_alone_is_a_task(call: Callable[..., Any]) -> None:
    Job("job", "@hourly").task(name="step")(call)
    assert [task.name for task in registry.jobs["job"].tasks] == ["step"]


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (without_arguments, "expected a function that takes one argument, the context"),
        (lambda: None, "expected a function that takes one argument, the context"),
        (with_two, "expected a function that takes one argument, the context"),
        (with_keyword, "expected a function that takes one argument, the context"),
        (Worker.run, "methods cannot be tasks; use a function at module level"),
        (Worker.static, "methods cannot be tasks; use a function at module level"),
        (Worker().run, "expected a function"),
        (Worker(), "expected a function"),
        (Worker, "expected a function"),
        (partial(noop), "expected a function"),
        (print, "expected a function"),
        (None, "expected a function"),
        ("noop", "expected a function"),
    ],
)
def test_an_invalid_task_is_refused_and_registers_nothing(call: Any, reason: str) -> None:
    job = Job("job", "@hourly")
    for decorate in (job.task(), job.task(name="step"), scheduled("@hourly"), scheduled("@hourly", name="x")):
        with pytest.raises(DefinitionError) as caught:
            decorate(call)
        assert (caught.value.field, caught.value.reason) == ("task", reason)
        assert caught.value.value in {call, getattr(call, "__qualname__", None)}
    assert list(registry.jobs) == ["job"]
    assert (job.tasks, registry.functions) == ((), {})


def generator(ctx: object) -> Iterator[None]:
    yield


async def async_generator(ctx: object) -> Any:
    yield


@pytest.mark.parametrize("call", [generator, async_generator])
def test_a_generator_is_refused_because_calling_it_would_run_nothing(call: Any) -> None:
    with pytest.raises(DefinitionError, match="generator"):
        scheduled("@hourly")(call)
    assert (registry.jobs, registry.functions) == ({}, {})


@pytest.mark.parametrize(
    ("schedule", "options", "field"),
    [
        ("nonsense", {}, "schedule"),
        ("", {}, "schedule"),
        ("99 * * * *", {}, "schedule"),
        ("klingon:0 2 * * *", {}, "schedule"),
        ("TZ=Mars/Olympus 0 2 * * *", {}, "schedule"),
        (5, {}, "schedule"),
        (None, {}, "schedule"),
        (f"{','.join(['1'] * 600)} * * * *", {}, "schedule"),  # longer than its column
        ("@hourly", {"mode": "sideways"}, "mode"),
        ("@hourly", {"timezone": "Mars/Olympus"}, "timezone"),
        ("@hourly", {"colour": "red"}, "colour"),
        ("@hourly", {"name": "x" * (MAX_NAME_LENGTH + 1)}, "name"),
        ("@hourly", {"name": " "}, "name"),
        ("@hourly", {"name": "a\nb"}, "name"),
        ("@hourly", {"name": "a\0b"}, "name"),
        ("@hourly", {"name": "a\x7fb"}, "name"),
        ("@hourly", {"name": "a\x85b"}, "name"),
        ("@hourly", {"name": "a\ud800b"}, "name"),
        ("@hourly", {"name": 5}, "name"),
        ("@hourly", {"metadata": {"key": object()}}, "metadata"),
        ("@hourly", {"metadata": {1: "one"}}, "metadata"),
        ("@hourly", {"metadata": ["key"]}, "metadata"),
    ],
)
def test_a_bad_declaration_names_the_field_and_registers_nothing(
    schedule: Any, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        scheduled(schedule, **options)(noop)
    assert caught.value.field == field
    assert caught.value.reason
    assert repr(caught.value.value)[:50] in str(caught.value)
    assert (registry.jobs, registry.functions) == ({}, {})


def test_a_missing_schedule_is_refused() -> None:
    with pytest.raises(DefinitionError, match="schedule"):
        scheduled(noop)  # type: ignore[arg-type]  # the mistake this test is about


def test_a_name_of_the_maximum_length_is_valid() -> None:
    name = "é" * MAX_NAME_LENGTH
    scheduled("@hourly", name=name)(noop)
    assert list(registry.jobs) == [name]


def test_a_second_function_of_the_same_name_leaves_no_job_without_a_task() -> None:
    scheduled("@hourly", name="first")(twin())
    with pytest.raises(DefinitionError, match="another task is registered under this name"):
        scheduled("@hourly", name="second")(twin())
    assert list(registry.jobs) == ["first"]


def test_a_task_name_is_unique_within_its_job() -> None:
    job = Job("job", "@hourly")
    job.task(name="step")(noop)
    with pytest.raises(DefinitionError, match="job: task='step': declared twice"):
        job.task(name="step")(noop)
    assert len(job.tasks) == 1
    Job("other", "@hourly").task(name="step")(noop)


@pytest.mark.parametrize("name", ["", " ", "a\tb", "x" * (MAX_NAME_LENGTH + 1)])
def test_a_bad_task_name_is_refused(name: str) -> None:
    job = Job("job", "@hourly")
    with pytest.raises(DefinitionError) as caught:
        job.task(name=name)(noop)
    assert caught.value.field == "task"
    assert (job.tasks, registry.functions) == ((), {})


def test_a_bad_override_of_a_task_registers_no_function() -> None:
    job = Job("job", "@hourly")
    with pytest.raises(DefinitionError, match="job/noop: mode='parallel': unknown setting"):
        job.task(mode="parallel")(noop)  # type: ignore[call-overload]  # the mistake this test is about
    assert (job.tasks, registry.functions) == ((), {})


def test_the_job_s_zone_makes_a_schedule_valid() -> None:
    Job("job", "0 2 * * *", timezone="Europe/Berlin")
    assert registry.jobs["job"].config == {"timezone": "Europe/Berlin"}

"""Decorators → declarations in the registry. Everything is checked here, before any row exists."""

import inspect
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any, TypedDict, TypeVar, Unpack, overload

from jobs.config import TASK_KEYS, normalized
from jobs.definition import (
    Definition,
    TaskDefinition,
    checked_metadata,
    checked_name,
    checked_schedule,
    checked_tasks,
)
from jobs.errors import DefinitionError
from jobs.registry import TaskFunction, registry
from jobs.retry import Retry

Function = TypeVar("Function", bound=Callable[..., Any])
Duration = timedelta | str


class TaskOptions(TypedDict, total=False):
    """What a task may override."""

    failure_strategy: str
    retry: Retry
    task_timeout: Duration
    bundle: bool
    queue: str


class JobOptions(TaskOptions, total=False):
    """What a job may override."""

    timezone: str
    overlap: str
    mode: str
    execution_timeout: Duration
    recovery: str
    recovery_max_occurrences: int
    recovery_max_duration: Duration
    misfire_grace: Duration
    pool: str
    priority: int
    spread: str
    retention: Duration
    secret_args: Collection[str]


class Job:
    """A job declared in code.

    >>> etl = Job("nightly-etl", "TZ=Europe/Berlin 0 2 * * *", mode="parallel", retry=Retry(3, "30s"))
    >>> @etl.task
    ... def extract(ctx): ...
    """

    def __init__(
        self,
        name: str,
        schedule: str,
        *,
        metadata: Mapping[str, str] | None = None,
        **config: Unpack[JobOptions],
    ) -> None:
        self.name = checked_name("name", name)
        self.config = normalized(config, owner=name)
        self.schedule = checked_schedule(schedule, self.config, owner=name)
        self.metadata = checked_metadata(metadata, owner=name)
        self.tasks: tuple[TaskDefinition, ...] = ()
        self.start_hooks: list[Callable[[Any], object]] = []
        self.complete_hooks: list[Callable[[Mapping[str, Any]], object]] = []
        registry.add_job(self)

    @overload
    def task(self, function: Function, /) -> Function: ...
    @overload
    def task(
        self,
        *,
        name: str | None = None,
        transactional: bool = False,
        **config: Unpack[TaskOptions],
    ) -> Callable[[Function], Function]: ...
    def task(self, function: Any = None, /, **options: Any) -> Any:  # type: ignore[misc]  # mypy and Unpack
        """Add a step. Steps run in the order they are declared, or at once with mode="parallel"."""

        name = options.pop("name", None)
        transactional = options.pop("transactional", False)

        def register(call: Function) -> Function:
            title = checked_name("task", _title(call, owner=self.name) if name is None else name)
            owner = f"{self.name}/{title}"
            overrides = normalized(options, owner=owner, keys=TASK_KEYS)
            key = _checked_function(call, owner=owner)
            tasks = checked_tasks((*self.tasks, TaskDefinition(title, key, overrides)), owner=self.name)
            _check_transactional(call, transactional=transactional, owner=owner)
            registry.add_function(TaskFunction(key, call, transactional))
            self.tasks = tasks
            return call

        return register if function is None else register(function)

    @property
    def definition(self) -> Definition:
        """What becomes a row; whether it is enabled is the operator's business."""
        return Definition(self.name, self.schedule, self.config, self.metadata, self.tasks)

    def on_start(self, hook: Function) -> Function:
        """Call `hook(occurrence)` when a worker starts the first task."""
        self.start_hooks.append(hook)
        return hook

    def on_complete(self, hook: Function) -> Function:
        """Call `hook(report)` when the occurrence is over, whatever its outcome."""
        self.complete_hooks.append(hook)
        return hook


def scheduled(
    schedule: str,
    *,
    name: str | None = None,
    metadata: Mapping[str, str] | None = None,
    transactional: bool = False,
    **config: Unpack[JobOptions],
) -> Callable[[Function], Function]:
    """A job with one task, in one line.

    >>> @scheduled("*/5 * * * *")
    ... def heartbeat(ctx): ...
    """

    if callable(schedule):
        reason = 'expected a text, as in @scheduled("*/5 * * * *")'
        raise DefinitionError("schedule", schedule, reason)

    def register(call: Function) -> Function:
        title = _title(call, owner=name or "")
        _checked_function(call, owner=name or title)
        job = Job(title if name is None else name, schedule, metadata=metadata, **config)
        try:
            return job.task(transactional=transactional)(call)
        except DefinitionError:
            del registry.jobs[job.name]  # a job without its task must not stay behind
            raise

    return register


def _title(call: Callable[..., Any], *, owner: str) -> str:
    if not inspect.isfunction(call):
        raise DefinitionError("task", call, "expected a function", owner=owner)
    return call.__name__


def _checked_function(call: Callable[..., Any], *, owner: str) -> str:
    _title(call, owner=owner)
    if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
        reason = "a generator runs nothing when called; use a plain or async function"
        raise DefinitionError("task", call.__qualname__, reason, owner=owner)
    scope = call.__qualname__.rpartition(".")[0]
    if scope and not scope.endswith("<locals>"):
        reason = "methods cannot be tasks; use a function at module level"
        raise DefinitionError("task", call.__qualname__, reason, owner=owner)
    try:
        inspect.signature(call).bind(object())
    except TypeError:
        reason = "expected a function that takes one argument, the context"
        raise DefinitionError("task", call.__qualname__, reason, owner=owner) from None
    return f"{call.__module__}.{call.__qualname__}"


def _check_transactional(call: Callable[..., Any], *, transactional: bool, owner: str) -> None:
    """Django's transactions belong to a thread; what an async body writes would not be in it."""
    if transactional and inspect.iscoroutinefunction(call):
        reason = "an async function cannot be transactional; use a plain function"
        raise DefinitionError("transactional", transactional, reason, owner=owner)

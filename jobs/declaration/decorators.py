"""Declare jobs and their tasks in code; a declaration is checked completely when it is made."""

import inspect
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any, TypedDict, TypeVar, Unpack, overload

from punctual.jobs.config.cascade import check_combination
from punctual.jobs.config.keys import TASK_KEYS, normalize
from punctual.jobs.config.retry import Retry
from punctual.jobs.declaration.registry import TaskFunction, registry
from punctual.jobs.definition.document import (
    Definition,
    TaskDefinition,
    validate_metadata,
    validate_name,
    validate_schedule,
    validate_tasks,
)
from punctual.jobs.errors import DefinitionError

Function = TypeVar("Function", bound=Callable[..., Any])
Duration = timedelta | str


class TaskOptions(TypedDict, total=False):
    """The settings that a task may override."""

    failure_strategy: str
    retry: Retry
    task_timeout: Duration
    dispatch_timeout: Duration | None
    bundle: bool
    queue: str


class JobOptions(TaskOptions, total=False):
    """The settings that a job may override."""

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
        self.name = validate_name("name", name)
        self.config = normalize(config, owner=name)
        check_combination(self.config, owner=name)
        self.schedule = validate_schedule(schedule, self.config, owner=name)
        self.metadata = validate_metadata(metadata, owner=name)
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
        """Add a task. Tasks run in the order of declaration, or at the same time with mode="parallel"."""

        name = options.pop("name", None)
        transactional = options.pop("transactional", False)

        def register(call: Function) -> Function:
            task_name = validate_name("task", _function_name(call, owner=self.name) if name is None else name)
            owner = f"{self.name}/{task_name}"
            overrides = normalize(options, owner=owner, keys=TASK_KEYS)
            key = _check_function(call, owner=owner)
            tasks = validate_tasks((*self.tasks, TaskDefinition(task_name, key, overrides)), owner=self.name)
            _check_transactional(call, transactional=transactional, owner=owner)
            registry.add_function(TaskFunction(key, call, transactional))
            self.tasks = tasks
            return call

        return register if function is None else register(function)

    @property
    def definition(self) -> Definition:
        """The definition to store; it leaves open whether the job is enabled, which operators decide."""
        return Definition(self.name, self.schedule, self.config, self.metadata, self.tasks)

    def on_start(self, hook: Function) -> Function:
        """Call `hook(occurrence)` when a worker starts the first task."""
        self.start_hooks.append(hook)
        return hook

    def on_complete(self, hook: Function) -> Function:
        """Call `hook(report)` when the occurrence has finished, with any outcome."""
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
    """Declare a job with one task, the decorated function.

    >>> @scheduled("*/5 * * * *")
    ... def heartbeat(ctx): ...
    """

    if callable(schedule):
        reason = 'expected a text, as in @scheduled("*/5 * * * *")'
        raise DefinitionError("schedule", schedule, reason)

    def register(call: Function) -> Function:
        function_name = _function_name(call, owner=name or "")
        _check_function(call, owner=name or function_name)
        job = Job(function_name if name is None else name, schedule, metadata=metadata, **config)
        try:
            return job.task(transactional=transactional)(call)
        except DefinitionError:
            registry.remove_job(job.name)  # a job without its task must not stay
            raise

    return register


def _function_name(call: Callable[..., Any], *, owner: str) -> str:
    if not inspect.isfunction(call):
        raise DefinitionError("task", call, "expected a function", owner=owner)
    return call.__name__


def _check_function(call: Callable[..., Any], *, owner: str) -> str:
    """Check that a worker can call it with the context alone; return its name for the registry."""
    _function_name(call, owner=owner)
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
    """Refuse async functions: Django's transactions belong to a thread, and an async body has another."""
    if transactional and inspect.iscoroutinefunction(call):
        reason = "an async function cannot be transactional; use a plain function"
        raise DefinitionError("transactional", transactional, reason, owner=owner)

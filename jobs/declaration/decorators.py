"""Declare jobs and their tasks in code; a declaration is checked completely when it is made."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
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
    recovery_rate: str | None
    misfire_grace: Duration
    pool: str
    priority: int
    spread: str
    update_policy: str
    retention: Duration
    secret_args: Collection[str]
    on_start: Sequence[str]
    on_complete: Sequence[str]


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

    def on_start(self, function: Function) -> Function:
        """Call `function(occurrence)` before the first task of each occurrence."""
        return self._add_hook("on_start", function)

    def on_complete(self, function: Function) -> Function:
        """Call `function(report)` when an occurrence has finished, with any outcome."""
        return self._add_hook("on_complete", function)

    def _add_hook(self, event: str, function: Function) -> Function:
        name = _register_hook(function, owner=self.name)
        names = [*self.config.get(event, ()), name]
        self.config = {**self.config, **normalize({event: names}, owner=self.name)}
        return function


def hook(function: Function) -> Function:
    """Register a hook that jobs can name in `on_start` and `on_complete`, wherever they are made.

    >>> @hook
    ... def notify(report): ...
    """
    _register_hook(function, owner="")
    return function


def _register_hook(function: Callable[..., Any], *, owner: str) -> str:
    name = _check_function(function, owner=owner, kind="hook", argument="the occurrence or its report")
    registry.add_hook(name, function)
    return name


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


def _function_name(call: Callable[..., Any], *, owner: str, kind: str = "task") -> str:
    if not inspect.isfunction(call):
        raise DefinitionError(kind, call, "expected a function", owner=owner)
    return call.__name__


def _check_function(
    call: Callable[..., Any], *, owner: str, kind: str = "task", argument: str = "the context"
) -> str:
    """Check that a worker can call it with one argument; return its name for the registry."""
    _function_name(call, owner=owner, kind=kind)
    if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
        reason = "a generator runs nothing when called; use a plain or async function"
        raise DefinitionError(kind, call.__qualname__, reason, owner=owner)
    scope = call.__qualname__.rpartition(".")[0]
    if scope and not scope.endswith("<locals>"):
        reason = f"methods cannot be {kind}s; use a function at module level"
        raise DefinitionError(kind, call.__qualname__, reason, owner=owner)
    try:
        inspect.signature(call).bind(object())
    except TypeError:
        reason = f"expected a function that takes one argument, {argument}"
        raise DefinitionError(kind, call.__qualname__, reason, owner=owner) from None
    return f"{call.__module__}.{call.__qualname__}"


def _check_transactional(call: Callable[..., Any], *, transactional: bool, owner: str) -> None:
    """Refuse async functions: Django's transactions belong to a thread, and an async body has another."""
    if transactional and inspect.iscoroutinefunction(call):
        reason = "an async function cannot be transactional; use a plain function"
        raise DefinitionError("transactional", transactional, reason, owner=owner)

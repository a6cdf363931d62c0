"""Decorators → declarations in the registry. Everything is checked here, before any row exists."""

import inspect
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict, TypeVar, Unpack, overload

import schedules
from jobs.config import TASK_KEYS, normalized
from jobs.errors import DefinitionError
from jobs.registry import TaskFunction, registry
from jobs.retry import Retry

Function = TypeVar("Function", bound=Callable[..., Any])
Duration = timedelta | str
LONGEST_NAME = 200
LONGEST_SCHEDULE = 1000
ANY_INSTANT = datetime(2000, 1, 1, tzinfo=UTC)  # validity does not depend on the anchor


class TaskOptions(TypedDict, total=False):
    """What a task may override."""

    failure_strategy: str
    retry: Retry
    task_timeout: Duration
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


@dataclass(frozen=True)
class TaskDeclaration:
    name: str
    function: str
    config: Mapping[str, Any]


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
        self.name = _checked_name("name", name)
        self.config = normalized(config, owner=name)
        self.schedule = _checked_schedule(schedule, self.config, owner=name)
        self.metadata = _checked_metadata(metadata, owner=name)
        self.tasks: list[TaskDeclaration] = []
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
            title = _checked_name("task", _title(call, owner=self.name) if name is None else name)
            owner = f"{self.name}/{title}"
            if any(task.name == title for task in self.tasks):
                raise DefinitionError("task", title, "declared twice", owner=self.name)
            overrides = normalized(options, owner=owner, keys=TASK_KEYS)
            key = _checked_function(call, owner=owner)
            registry.add_function(TaskFunction(key, call, transactional))
            self.tasks.append(TaskDeclaration(title, key, overrides))
            return call

        return register if function is None else register(function)

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


def _checked_name(field: str, name: str) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME:
        raise DefinitionError(field, name, f"expected 1 to {LONGEST_NAME} characters")
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in name):
        raise DefinitionError(field, name, "control characters are not allowed")
    return name


def _checked_metadata(metadata: Mapping[str, str] | None, *, owner: str) -> dict[str, str]:
    pairs: Any = metadata or {}
    if not isinstance(pairs, Mapping) or not all(
        isinstance(text, str) for pair in pairs.items() for text in pair
    ):
        raise DefinitionError("metadata", metadata, "expected a mapping of texts to texts", owner=owner)
    return dict(pairs)


def _checked_schedule(text: str, config: Mapping[str, Any], *, owner: str) -> str:
    try:
        schedules.parse(text, reference=ANY_INSTANT, timezone=config.get("timezone"))
    except schedules.ScheduleError as error:
        raise DefinitionError("schedule", text, str(error), owner=owner) from error
    if len(text) > LONGEST_SCHEDULE:
        raise DefinitionError(
            "schedule", text, f"expected at most {LONGEST_SCHEDULE} characters", owner=owner
        )
    return text


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

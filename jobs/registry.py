"""What code declared: job name → declaration, function name → callable. Nothing else ever runs (JOB-4)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jobs.errors import DefinitionError

if TYPE_CHECKING:
    from jobs.declare import Job


@dataclass(frozen=True)
class TaskFunction:
    """A callable a decorator registered, with what only code can say about it."""

    name: str
    call: Callable[..., Any]
    transactional: bool = False


@dataclass
class Registry:
    jobs: "dict[str, Job]" = field(default_factory=dict)
    functions: dict[str, TaskFunction] = field(default_factory=dict)

    def add_job(self, job: "Job") -> None:
        if job.name in self.jobs:
            raise DefinitionError("name", job.name, "another job is declared under this name")
        self.jobs[job.name] = job

    def add_function(self, function: TaskFunction) -> None:
        known = self.functions.get(function.name)
        if known is not None and known.call is not function.call:
            raise DefinitionError("function", function.name, "another task is registered under this name")
        if known is not None and known.transactional is not function.transactional:
            reason = f"registered before with transactional={known.transactional}; use a second function"
            raise DefinitionError("function", function.name, reason)
        self.functions[function.name] = function

    def function(self, name: str) -> TaskFunction | None:
        """The callable, or None: the stored name is `unresolved` and is never imported."""
        return self.functions.get(name)

    def greets(self, job_name: str) -> bool:
        """Somebody wants to know when it starts."""
        job = self.jobs.get(job_name)
        return job is not None and bool(job.start_hooks)

    def has_hooks(self, job_name: str) -> bool:
        job = self.jobs.get(job_name)
        return job is not None and bool(job.complete_hooks)

    @contextmanager
    def isolated(self) -> Iterator["Registry"]:
        """An empty registry for the length of a test."""
        kept = self.jobs, self.functions
        self.jobs, self.functions = {}, {}
        try:
            yield self
        finally:
            self.jobs, self.functions = kept


registry = Registry()

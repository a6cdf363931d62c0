"""The jobs and functions that code has declared, by name. Only these functions ever run (JOB-4).

The first read imports the modules in which users declare jobs. Importing them in `AppConfig.ready` instead
would make every command pay for it, and would run users' modules before all apps are ready.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from punctual.jobs.declaration.discovery import Discovery, import_declarations
from punctual.jobs.errors import DefinitionError

if TYPE_CHECKING:
    from punctual.jobs.declaration.decorators import Job


@dataclass(frozen=True)
class TaskFunction:
    """A callable that a decorator registered, with the options that only code can set."""

    name: str
    call: Callable[..., Any]
    transactional: bool = False
    permission: str = ""  # who stores a definition with this function needs it, unless code declares it


class Registry:
    """Declared jobs and registered functions.

    Until `discovery` is complete, a job that is not here may still be declared: nothing may be concluded from
    its absence.
    """

    def __init__(self, import_modules: Callable[[], None] = lambda: None) -> None:
        self.discovery = Discovery(import_modules)
        self._jobs: dict[str, Job] = {}
        self._functions: dict[str, TaskFunction] = {}

    # -- reading -----------------------------------------------------------------------------------------

    @property
    def jobs(self) -> "dict[str, Job]":
        if not self.discovery.complete:
            self.discovery.run()
        return self._jobs

    @property
    def functions(self) -> dict[str, TaskFunction]:
        if not self.discovery.complete:
            self.discovery.run()
        return self._functions

    def function(self, name: str) -> TaskFunction | None:
        """Return the function, or None if the stored name is unresolved; the name is never imported."""
        return self.functions.get(name)

    def start_hooks(self, job_name: str) -> Sequence[Callable[[Any], object]]:
        job = self.jobs.get(job_name)
        return job.start_hooks if job else ()

    def complete_hooks(self, job_name: str) -> Sequence[Callable[[Any], object]]:
        job = self.jobs.get(job_name)
        return job.complete_hooks if job else ()

    # -- declaring: must not import other modules of declarations ----------------------------------------

    def add_job(self, job: "Job") -> None:
        if job.name in self._jobs:
            raise DefinitionError("name", job.name, "another job is declared under this name")
        self._jobs[job.name] = job

    def remove_job(self, name: str) -> None:
        """Undo `add_job` for a declaration that turned out to be invalid."""
        del self._jobs[name]

    def add_function(self, function: TaskFunction) -> None:
        known = self._functions.get(function.name)
        if known is not None and known.call is not function.call:
            raise DefinitionError("function", function.name, "another task is registered under this name")
        if known is not None and known.transactional is not function.transactional:
            reason = f"registered before with transactional={known.transactional}; use a second function"
            raise DefinitionError("function", function.name, reason)
        self._functions[function.name] = function

    # -- tests -------------------------------------------------------------------------------------------

    @contextmanager
    def isolated(self) -> Iterator["Registry"]:
        """Replace the contents by an empty, complete registry for the length of a test."""
        self.discovery.run()  # a module imported during the test would register in the replacement
        contents = self._jobs, self._functions, self.discovery
        self._jobs, self._functions = {}, {}
        self.discovery = Discovery(lambda: None, complete=True)
        try:
            yield self
        finally:
            self._jobs, self._functions, self.discovery = contents


registry = Registry(import_declarations)

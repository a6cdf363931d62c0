"""The jobs, functions and hooks that code has declared, by name. Only these ever run (JOB-4).

The first read imports the modules in which users declare jobs. Importing them in `AppConfig.ready` instead
would make every command pay for it, and would run users' modules before all apps are ready.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from punctual.jobs.declaration.discovery import Discovery, import_declarations
from punctual.jobs.errors import DefinitionError

if TYPE_CHECKING:
    from punctual.jobs.declaration.decorators import Job


Hook = Callable[[Any], object]


@dataclass(frozen=True)
class TaskFunction:
    """A callable that a decorator registered, with the options that only code can set."""

    name: str
    call: Callable[..., Any]
    transactional: bool = False
    permission: str = ""  # who stores a definition with this function needs it, unless code declares it


class Registry:
    """Declared jobs, registered functions and registered hooks.

    Until `discovery` is complete, a job that is not here may still be declared: nothing may be concluded from
    its absence.
    """

    def __init__(self, import_modules: Callable[[], None] = lambda: None) -> None:
        self.discovery = Discovery(import_modules)
        self._jobs: dict[str, Job] = {}
        self._functions: dict[str, TaskFunction] = {}
        self._hooks: dict[str, Hook] = {}

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

    @property
    def hooks(self) -> dict[str, Hook]:
        if not self.discovery.complete:
            self.discovery.run()
        return self._hooks

    def hook(self, name: str) -> Hook | None:
        """Return the hook, or None if the stored name is unresolved; the name is never imported."""
        return self.hooks.get(name)

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

    def add_hook(self, name: str, hook: Hook) -> None:
        if self._hooks.get(name, hook) is not hook:
            raise DefinitionError("hook", name, "another hook is registered under this name")
        self._hooks[name] = hook

    # -- tests -------------------------------------------------------------------------------------------

    @contextmanager
    def isolated(self) -> Iterator["Registry"]:
        """Replace the contents by an empty, complete registry for the length of a test."""
        self.discovery.run()  # a module imported during the test would register in the replacement
        contents = self._jobs, self._functions, self._hooks, self.discovery
        self._jobs, self._functions, self._hooks = {}, {}, {}
        self.discovery = Discovery(lambda: None, complete=True)
        try:
            yield self
        finally:
            self._jobs, self._functions, self._hooks, self.discovery = contents


registry = Registry(import_declarations)

"""Import the modules in which users declare jobs, once per process.

These are the modules `jobs` and `tasks` of installed apps: a job may be declared beside the Celery task that
it runs. Our own apps are skipped, since `punctual.jobs` is a room of ours and not a module of declarations.
"""

import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from threading import RLock

from django.apps import AppConfig, apps
from django.utils.module_loading import module_has_submodule

MODULES = ("jobs", "tasks")


def import_declarations() -> None:
    """Import every module of declarations; an error in one of them is raised."""
    for name in declaration_modules(apps.get_app_configs()):
        import_module(name)


def declaration_modules(configs: Iterable[AppConfig]) -> Iterator[str]:
    """Name the modules `jobs` and `tasks` of these apps, except our own."""
    for config in configs:
        if config.name == "punctual" or config.name.startswith("punctual."):
            continue
        for name in MODULES:
            if config.module is not None and module_has_submodule(config.module, name):
                yield f"{config.name}.{name}"


class Discovery:
    """Runs once. `complete` is true when every module of declarations has been imported."""

    def __init__(self, import_modules: Callable[[], None], *, complete: bool = False) -> None:
        self.complete = complete
        self._import_modules = import_modules
        self._importing = False
        self._error: Exception | None = None
        self._lock = RLock()

    def run(self) -> None:
        """Import the modules of declarations, unless this process has done so.

        Does nothing until Django has loaded all apps; a later call imports them. An error in a module is
        raised now and at every later call: the process must be restarted to import the module again.
        """
        if self.complete or not apps.ready:
            return
        with self._lock:
            if self.complete or self._importing:  # a module of declarations reads the registry
                return
            if self._error is not None:
                raise self._error
            self._importing = True
            try:
                self._import_modules()
            except Exception as error:
                self._error = error
                raise
            finally:
                self._importing = False
            self.complete = True

    def run_or_exit(self) -> None:
        """Run when a worker or a beat starts; print the traceback of an error and exit.

        Celery logs the errors of its signal handlers and continues, so an error must end the process here.
        """
        try:
            self.run()
        except Exception:  # noqa: BLE001 - a module of a user can raise anything
            traceback.print_exc()
            sys.exit("error: the jobs of this project cannot be imported")

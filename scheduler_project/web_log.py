"""gunicorn's own lines → the project's format, so that every process speaks the same (OPS-6)."""

import os
from logging.config import dictConfig
from typing import Any

from gunicorn import glogging  # type: ignore[import-untyped]  # ships no types

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")

STDERR = "-"


class Logger(glogging.Logger):  # type: ignore[misc]  # Any, as said above
    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        if cfg.errorlog == STDERR:  # a file that somebody asked for stays gunicorn's
            from django.conf import settings  # noqa: PLC0415 - its module is named just above

            dictConfig(settings.LOGGING)
            self.error_log.handlers.clear()
            self.error_log.propagate = True

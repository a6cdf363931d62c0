"""Log gunicorn's own lines in the format of all other processes (OPS-6)."""

import os
from logging.config import dictConfig
from typing import Any

from gunicorn import glogging  # type: ignore[import-untyped]  # ships no types

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")

STDERR = "-"


class Logger(glogging.Logger):  # type: ignore[misc]  # Any, as said above
    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        if cfg.errorlog == STDERR:  # an error log in a file keeps gunicorn's format
            from django.conf import settings  # noqa: PLC0415 - needs the variable above

            dictConfig(settings.LOGGING)
            self.error_log.handlers.clear()
            self.error_log.propagate = True

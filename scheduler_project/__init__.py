"""The ready-made platform: a Django project around the package `punctual`.

It is not part of the wheel. A project of your own installs the wheel and needs nothing from here.

Invariants: environment variables are read here and nowhere else. Without any variable the platform runs on
SQLite and a bundled broker, for this machine only; with DATABASE_URL it is safe for production by default.
On failure: a wrong variable, an unreachable server or a wrong declaration ends the process with one line.

| question | module |
|---|---|
| which variable sets what? | `environment`, `settings` |
| how do processes log? | `log_format`, `gunicorn_log`, `celery` (levels) |
| what does an uncaught error print? | `excepthook` |
| what do `celery inspect` and Flower get to see? | `inspection` |
| who may open Flower? | `flower`, `flowerconfig` |
| what does `manage.py up` run? | `up/` |
"""

from scheduler_project.celery import app as celery_app

__all__ = ["celery_app"]

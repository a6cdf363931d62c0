"""Settings → the Celery application that beats, workers and Flower share."""

import os

from celery import Celery

from scheduler_project import failures, flower, log_level

failures.install()
flower.configure()
log_level.follow(os.environ)
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")

app = Celery("punctual", fixups=["scheduler_project.keep_connections:fixup"])
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

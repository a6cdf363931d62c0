"""Registers the composition root with Django, so that `manage.py up` is found."""

from django.apps import AppConfig


class SchedulerProjectConfig(AppConfig):
    name = "scheduler_project"

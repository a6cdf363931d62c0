"""Register the platform with Django, so that it finds `manage.py up`."""

from django.apps import AppConfig


class SchedulerProjectConfig(AppConfig):
    name = "scheduler_project"

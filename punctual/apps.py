"""Register the core with Django: models, triggers, system checks and worker signals."""

from django.apps import AppConfig
from django.core.checks import register
from django.db.models.signals import post_migrate


class PunctualConfig(AppConfig):
    name = "punctual"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "Punctual"

    def ready(self) -> None:
        from punctual import checks
        from punctual.beat.periodic_tasks.importer import SEND
        from punctual.execution.worker import lifecycle
        from punctual.jobs.database import install_triggers
        from punctual.jobs.declaration.registry import registry
        from punctual.jobs.ledger_interface import connect
        from punctual.occurrences import job_port

        connect(job_port)
        post_migrate.connect(install_triggers, sender=self, dispatch_uid="punctual-triggers")
        lifecycle.connect()
        register(checks.check_settings, "punctual")
        registry.add_function(SEND)

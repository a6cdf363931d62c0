"""Registers the ledger with Django, its triggers with `migrate`, and its door with `jobs.trigger`."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class OccurrencesConfig(AppConfig):
    name = "occurrences"

    def ready(self) -> None:
        from jobs import control
        from occurrences import manual, triggers

        control.connect(manual.trigger)
        post_migrate.connect(triggers.install, sender=self, dispatch_uid="punctual-triggers")

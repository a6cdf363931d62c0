"""Registers the ledger with Django, its triggers with `migrate`, and its doors with `jobs`."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class OccurrencesConfig(AppConfig):
    name = "occurrences"

    def ready(self) -> None:
        from jobs.ledger import connect
        from occurrences import ledger, triggers

        connect(ledger)
        post_migrate.connect(triggers.install, sender=self, dispatch_uid="punctual-triggers")

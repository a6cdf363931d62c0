"""Registers the ledger with Django, its triggers with `migrate`, and its doors with `jobs`."""

from django.apps import AppConfig
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate


class OccurrencesConfig(AppConfig):
    name = "occurrences"

    def ready(self) -> None:
        from jobs.ledger import connect
        from occurrences import instants, ledger, triggers

        connect(ledger)
        connection_created.connect(instants.read_fast, dispatch_uid="punctual-instants")
        post_migrate.connect(triggers.install, sender=self, dispatch_uid="punctual-triggers")

"""Registers the `beat` package with Django, what imported jobs run, and the verb that imports them."""

from django.apps import AppConfig


class BeatConfig(AppConfig):
    name = "beat"

    def ready(self) -> None:
        from beat.importing import SEND
        from beat.verbs import IMPORT_BEAT
        from jobs.registry import registry
        from jobs.verbs import connect

        registry.add_function(SEND)
        connect(IMPORT_BEAT)

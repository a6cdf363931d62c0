"""FAULTS_NO_SWEEPER in the environment: beats without their safety net."""

import os
from datetime import timedelta

from django.apps import AppConfig


class FaultyConfig(AppConfig):
    name = "benchmarks.faulty"

    def ready(self) -> None:
        from recovery import sweep

        if os.environ.get("FAULTS_NO_SWEEPER"):
            sweep.INTERVAL = timedelta(days=999)

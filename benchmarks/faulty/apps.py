"""FAULTS_LOST_AFTER: seconds until an unclaimed message counts as lost. FAULTS_NO_SWEEPER: no safety net."""

import os
from datetime import timedelta

from django.apps import AppConfig


class FaultyConfig(AppConfig):
    name = "benchmarks.faulty"

    def ready(self) -> None:
        from recovery import resend, sweep

        if seconds := os.environ.get("FAULTS_LOST_AFTER"):
            resend.LOST_AFTER = timedelta(seconds=float(seconds))
        if os.environ.get("FAULTS_NO_SWEEPER"):
            sweep.INTERVAL = timedelta(days=999)

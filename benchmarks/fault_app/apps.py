"""Disable the sweeper of beats if FAULTS_NO_SWEEPER is set."""

import os
from datetime import timedelta

from django.apps import AppConfig


class FaultAppConfig(AppConfig):
    name = "benchmarks.fault_app"

    def ready(self) -> None:
        from punctual.recovery.sweeper import sweep

        if os.environ.get("FAULTS_NO_SWEEPER"):
            sweep.INTERVAL = timedelta(days=999)

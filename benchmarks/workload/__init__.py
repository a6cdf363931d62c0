"""The no-op that the workers of benchmarks/execution.py run, for every job system."""

from django.apps import AppConfig


class WorkloadConfig(AppConfig):
    name = "benchmarks.workload"
    label = "benchmark_workload"

"""What the workers of benchmarks/execution.py run: the same no-op for every system."""

from django.apps import AppConfig


class WorkloadConfig(AppConfig):
    name = "benchmarks.workload"
    label = "benchmark_workload"

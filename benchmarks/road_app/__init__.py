"""App of `benchmarks/road.py` and `benchmarks/walk.py`: the jobs that are run, and the measuring.

It uses only entry points that stay the same from commit to commit, because it is copied into older trees.
"""

from django.apps import AppConfig


class RoadAppConfig(AppConfig):
    name = "benchmarks.road_app"
    label = "benchmark_road"

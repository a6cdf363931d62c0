"""Registers functions for the jobs a cluster test inserts as rows; instead of `tests.cluster.app`."""

from django.apps import AppConfig


class ClusterToolsConfig(AppConfig):
    name = "tests.cluster.tools"
    label = "cluster_tools"

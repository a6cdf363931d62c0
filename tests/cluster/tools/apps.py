"""Register functions for jobs that tests insert as rows; installed instead of `tests.cluster.app`."""

from django.apps import AppConfig


class ClusterToolsConfig(AppConfig):
    name = "tests.cluster.tools"
    label = "cluster_tools"

"""Register tasks with every kind of behaviour; installed beside `tests.cluster.tools`."""

from django.apps import AppConfig


class ClusterBehavioursConfig(AppConfig):
    name = "tests.cluster.behaviours"
    label = "cluster_behaviours"

"""Register the jobs of the cluster tests; installed in their child processes only."""

from django.apps import AppConfig


class ClusterTestConfig(AppConfig):
    name = "tests.cluster.app"
    label = "cluster_app"
    default_auto_field = "django.db.models.BigAutoField"

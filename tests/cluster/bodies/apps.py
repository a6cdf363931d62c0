"""Registers tasks of every kind of behaviour; beside `tests.cluster.tools`."""

from django.apps import AppConfig


class ClusterBodiesConfig(AppConfig):
    name = "tests.cluster.bodies"
    label = "cluster_bodies"

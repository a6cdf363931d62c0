"""Celery tasks."""

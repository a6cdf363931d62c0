"""A plain Celery task, as used with django-celery-beat."""

from celery import shared_task

from punctual.jobs.clock import database_now
from tests.cluster.app.models import Effect


@shared_task(name="cluster.ping")
def ping() -> None:
    Effect.objects.create(source="ping", at=database_now())

"""A plain Celery task, as users of django-celery-beat have them."""

from celery import shared_task

from jobs.clock import database_now
from tests.cluster.app.models import Effect


@shared_task(name="cluster.ping")
def ping() -> None:
    Effect.objects.create(source="ping", at=database_now())

"""python -m benchmarks.workload.django_q_fill N: migrate for django-q2 and fill its queue."""

import sys

import django
from django.core.management import call_command

if __name__ == "__main__":
    django.setup()
    call_command("migrate", verbosity=0)
    from django_q.tasks import async_task

    for _ in range(int(sys.argv[1])):
        async_task("benchmarks.workload.django_q_tasks.noop")

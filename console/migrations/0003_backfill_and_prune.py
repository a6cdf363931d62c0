"""Operators may fill in the past and delete what is older than it is kept, as the beats do."""

from django.apps import apps as current
from django.contrib.auth.management import create_permissions
from django.db import migrations

OPERATES = ("backfill_job", "prune_job")


def allow(apps, _editor):
    Group = apps.get_model("auth", "Group")
    Permission = apps.get_model("auth", "Permission")
    create_permissions(current.get_app_config("recovery"), verbosity=0)
    found = Permission.objects.filter(content_type__app_label="recovery", codename__in=OPERATES)
    for group in Group.objects.filter(name="Punctual: operators"):
        group.permissions.add(*found)


class Migration(migrations.Migration):
    dependencies = [("console", "0002_groups"), ("recovery", "0002_prune_round_and_permissions")]
    operations = [migrations.RunPython(allow, migrations.RunPython.noop)]

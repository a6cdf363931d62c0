"""Operators may have the chores of the safety net done at once, as the beats do them by themselves."""

from django.apps import apps as current
from django.contrib.auth.management import create_permissions
from django.db import migrations

OPERATES = ("recover_job", "reap_run", "resend_run", "settle_occurrence")


def allow(apps, _editor):
    Group = apps.get_model("auth", "Group")
    Permission = apps.get_model("auth", "Permission")
    create_permissions(current.get_app_config("recovery"), verbosity=0)
    found = Permission.objects.filter(content_type__app_label="recovery", codename__in=OPERATES)
    for group in Group.objects.filter(name="Punctual: operators"):
        group.permissions.add(*found)


class Migration(migrations.Migration):
    dependencies = [("console", "0003_backfill_and_prune"), ("recovery", "0003_chores_and_unfinished")]
    operations = [migrations.RunPython(allow, migrations.RunPython.noop)]

"""Two groups to put people into: those who may look, and those who may also operate.

Django writes permissions after all migrations; here they are written as soon as they are needed, so that a
fresh database has the groups complete.
"""

from django.apps import apps as current
from django.contrib.auth.management import create_permissions
from django.db import migrations

READERS = "Punctual: read-only"
OPERATORS = "Punctual: operators"
OPERATE = (
    "trigger_job",
    "pause_job",
    "cancel_occurrence",
    "replay_occurrence",
    "resolve_taskrun",
    "change_pool",
    "backfill_job",
    "prune_job",
    "recover_job",
    "reap_run",
    "resend_run",
    "settle_occurrence",
)


def add_groups(apps, _editor):
    Group = apps.get_model("auth", "Group")
    Permission = apps.get_model("auth", "Permission")
    create_permissions(current.get_app_config("punctual"), verbosity=0)
    ours = Permission.objects.filter(content_type__app_label="punctual")
    view = list(ours.filter(codename__startswith="view_"))
    readers, _ = Group.objects.get_or_create(name=READERS)
    readers.permissions.add(*view)
    operators, _ = Group.objects.get_or_create(name=OPERATORS)
    operators.permissions.add(*view, *ours.filter(codename__in=OPERATE))


class Migration(migrations.Migration):
    dependencies = [
        ("punctual", "0001_initial"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]
    operations = [migrations.RunPython(add_groups, migrations.RunPython.noop)]

"""Two groups to put people into: who may look, and who may also operate.

Permissions are rows that Django writes after all migrations; here they are written as soon as they are
needed, so that a fresh database has the groups complete.
"""

from django.apps import apps as current
from django.contrib.auth.management import create_permissions
from django.db import migrations

PACKAGES = ("jobs", "occurrences", "beat", "recovery", "console")
OPERATES = (
    "trigger_job", "pause_job", "cancel_occurrence", "replay_occurrence", "resolve_taskrun", "change_pool",
)


def add_groups(apps, _editor):
    Group = apps.get_model("auth", "Group")
    Permission = apps.get_model("auth", "Permission")
    for name in PACKAGES:
        create_permissions(current.get_app_config(name), verbosity=0)
    ours = Permission.objects.filter(content_type__app_label__in=PACKAGES)
    looking = list(ours.filter(codename__startswith="view_"))
    readers, _ = Group.objects.get_or_create(name="Punctual: read-only")
    readers.permissions.add(*looking)
    operators, _ = Group.objects.get_or_create(name="Punctual: operators")
    operators.permissions.add(*looking, *ours.filter(codename__in=OPERATES))


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0001_snapshot"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("jobs", "0002_jobversion"),
        ("occurrences", "0006_by_cause"),
        ("beat", "0001_initial"),
    ]
    operations = [migrations.RunPython(add_groups, migrations.RunPython.noop)]

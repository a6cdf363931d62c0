from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('recovery', '0002_prune_round_and_permissions'),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='audit',
            options={'ordering': ['-id'], 'permissions': [('backfill_job', 'Can fill in past occurrences of a job'), ('prune_job', "Can delete what is older than a job's retention"), ('recover_job', 'Can catch up what was missed'), ('reap_run', 'Can take back what was abandoned'), ('resend_run', 'Can send unconfirmed messages again'), ('settle_occurrence', 'Can have occurrences settled that are over')], 'verbose_name': 'audit entry', 'verbose_name_plural': 'audit entries'},
        ),
        migrations.AddField(
            model_name='audit',
            name='finished',
            # Entries of before were written when their part was done.
            field=models.BooleanField(default=True, help_text='No: under way, or broken off; what is counted is done.'),
            preserve_default=False,
        ),
        migrations.AlterField(
            model_name='audit',
            name='action',
            field=models.CharField(choices=[('replay', 'replay'), ('backfill', 'backfill'), ('cancel', 'cancel'), ('skip', 'skip'), ('dlq_replay', 'replay of dead letters'), ('dlq_purge', 'purge of dead letters'), ('prune', 'prune'), ('recover', 'catch-up'), ('reap', 'reap'), ('resend', 'resend'), ('settle', 'settle')], max_length=12),
        ),
    ]

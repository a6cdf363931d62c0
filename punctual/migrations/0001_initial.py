import datetime
import django.db.models.deletion
import punctual.jobs.check_constraints
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField(help_text='Starts at 0.')),
                ('state', models.CharField(choices=[('running', 'running'), ('success', 'success'), ('failed', 'failed'), ('timeout', 'timed out'), ('lost', 'lost'), ('canceled', 'canceled'), ('snoozed', 'snoozed'), ('released', 'handed back')], default='running', max_length=10)),
                ('worker', models.CharField(blank=True, default='', max_length=200)),
                ('started_at', models.DateTimeField()),
                ('finished_at', models.DateTimeField(null=True)),
                ('lease_until', models.DateTimeField(help_text='Lease at the time the attempt was lost.', null=True)),
                ('heartbeat_at', models.DateTimeField(help_text='Last heartbeat before the attempt was lost.', null=True)),
                ('error_type', models.CharField(blank=True, default='', max_length=200)),
                ('error', models.TextField(blank=True, default='')),
                ('traceback', models.TextField(blank=True, default='')),
                ('log', models.TextField(blank=True, default='', help_text='Last lines that the task logged.')),
            ],
            options={
                'ordering': ['run', 'number'],
            },
        ),
        migrations.CreateModel(
            name='Audit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('action', models.CharField(choices=[('run', 'run now'), ('pause', 'pause'), ('resume', 'resume'), ('stop', 'stop'), ('start', 'start'), ('remove', 'removal of a job'), ('replay', 'replay'), ('backfill', 'backfill'), ('cancel', 'cancel'), ('skip', 'skip'), ('dlq_replay', 'replay of dead letters'), ('dlq_purge', 'purge of dead letters'), ('prune', 'prune'), ('recover', 'catch-up'), ('reap', 'reap'), ('resend', 'resend'), ('settle', 'settle')], max_length=12)),
                ('requested_by', models.CharField(max_length=200)),
                ('reason', models.CharField(blank=True, default='', max_length=500)),
                ('at', models.DateTimeField()),
                ('count', models.PositiveIntegerField(help_text='How many rows it created or changed.')),
                ('details', models.JSONField(default=dict, help_text='What was requested.')),
                ('finished', models.BooleanField(help_text='No: in progress or interrupted; counted rows are committed.')),
            ],
            options={
                'verbose_name': 'audit entry',
                'verbose_name_plural': 'audit entries',
                'ordering': ['-id'],
                'permissions': [('backfill_job', 'Can backfill past occurrences of a job'), ('prune_job', "Can delete what is older than a job's retention"), ('recover_job', 'Can catch up late jobs'), ('reap_run', 'Can reap abandoned runs'), ('resend_run', 'Can send unconfirmed messages again'), ('settle_occurrence', 'Can settle ended occurrences')],
            },
        ),
        migrations.CreateModel(
            name='Job',
            fields=[
                ('id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=200, unique=True)),
                ('schedule', models.CharField(help_text='Chronex by default; a prefix such as `posix:` selects another kind.', max_length=1000)),
                ('config', models.JSONField(blank=True, default=dict, help_text='Overrides only; the rest is inherited.')),
                ('metadata', models.JSONField(blank=True, default=dict, help_text='Passed to tasks as ctx.metadata.')),
                ('origin', models.CharField(choices=[('code', 'declared in code'), ('admin', 'made in the admin'), ('file', 'applied from a file'), ('polling', 'registered by a polling scheduler')], default='admin', max_length=10)),
                ('version', models.PositiveIntegerField(default=1)),
                ('enabled', models.BooleanField(default=True)),
                ('paused_at', models.DateTimeField(blank=True, null=True)),
                ('pause_reason', models.CharField(blank=True, db_default='', default='', max_length=500)),
                ('paused_until', models.DateTimeField(blank=True, help_text='A beat resumes the job then; null: an operator does.', null=True)),
                ('pause_backlog', models.CharField(blank=True, db_default='', default='', help_text='Which skipped instants run when a beat resumes the job.', max_length=10)),
                ('removed_at', models.DateTimeField(blank=True, help_text='When its declaration was removed; the row stays for its history.', null=True)),
                ('created_at', models.DateTimeField()),
                ('updated_at', models.DateTimeField(help_text='When its definition last changed; planning starts there.')),
                ('anchored_at', models.DateTimeField(blank=True, help_text='When its schedule last changed: `@once +1h` counts from there. Null: never.', null=True)),
            ],
            options={
                'ordering': ['name'],
                'permissions': [('trigger_job', 'Can run a job now'), ('pause_job', 'Can pause and resume a job'), ('send_messages', 'Can define jobs that send any Celery message')],
            },
        ),
        migrations.CreateModel(
            name='IdempotencyKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=200)),
                ('occurrence_id', models.UUIDField(help_text='The occurrence that the first trigger created.')),
                ('request', models.CharField(help_text='SHA-256 of the arguments and settings of the trigger.', max_length=64)),
                ('expires_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='JobVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('author', models.CharField(max_length=200)),
                ('reason', models.CharField(blank=True, default='', max_length=500)),
                ('before', models.JSONField(help_text='The definition before the change; null for the first version.', null=True)),
                ('after', models.JSONField(help_text='The definition after the change.')),
                ('created_at', models.DateTimeField()),
                ('counts_from', models.DateTimeField(help_text='Instants count from here: an occurrence of the previous version was kept until then.', null=True)),
            ],
            options={
                'verbose_name': 'version',
                'ordering': ['job', '-number'],
            },
        ),
        migrations.CreateModel(
            name='MetricsSnapshot',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('claimed_at', models.DateTimeField(help_text='When a web process last started to count.')),
                ('cost', models.DurationField(default=datetime.timedelta(0), help_text='How long counting took.')),
                ('text', models.TextField(default='', help_text="The counters, in Prometheus' format.")),
                ('durations', models.JSONField(default=dict, help_text='Seconds spent, by job and by task, ever.')),
                ('counted_until', models.DateTimeField(help_text='Durations of what ended by then are included.', null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Occurrence',
            fields=[
                ('id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('job_version', models.PositiveIntegerField()),
                ('cause', models.CharField(choices=[('schedule', 'schedule'), ('recovery', 'recovery'), ('manual', 'manual'), ('replay', 'replay'), ('backfill', 'backfill')], default='schedule', max_length=10)),
                ('scheduled_for', models.DateTimeField(help_text='Nominal instant of the schedule.')),
                ('run_at', models.DateTimeField(help_text='Start time after spread, stagger and jitter.')),
                ('late_at', models.DateTimeField(help_text='Counts as late after; then the recovery policy decides.', null=True)),
                ('state', models.CharField(choices=[('pending', 'pending'), ('queued', 'queued'), ('dispatched', 'dispatched'), ('running', 'running'), ('completed', 'completed'), ('completed_with_errors', 'completed with errors'), ('failed', 'failed'), ('canceled', 'canceled'), ('failed_stale', 'failed (stale)'), ('skipped', 'skipped'), ('missed', 'missed')], default='pending', max_length=24)),
                ('reason', models.CharField(blank=True, default='', max_length=200)),
                ('ending', models.CharField(blank=True, default='', help_text='How it will end, once its clean-up is over.', max_length=24)),
                ('exclusive', models.BooleanField(help_text='No second occurrence of the job may be active.')),
                ('pool', models.CharField(default='default', help_text='Pool whose slot it takes.', max_length=100)),
                ('priority', models.IntegerField(default=0, help_text='Higher starts first when slots are scarce.')),
                ('holds_slot', models.BooleanField(default=False, help_text='Takes a slot of its pool.')),
                ('slot_wanted_at', models.DateTimeField(help_text='Since when it waits for a slot to go on; it had given its own back.', null=True)),
                ('expires_at', models.DateTimeField(help_text="Must not start after; end of the schedule's window.", null=True)),
                ('config', models.JSONField(default=dict, help_text='Effective configuration.')),
                ('overrides', models.JSONField(default=dict, help_text='Configuration overrides of this occurrence.')),
                ('args', models.JSONField(default=dict, help_text='Arguments of a manual run.')),
                ('metadata', models.JSONField(default=dict, help_text="The job's, when it was planned; ctx.metadata.")),
                ('covers', models.JSONField(help_text='Instants that a compressed run covers.', null=True)),
                ('spans_until', models.DateTimeField(help_text='Last instant of a range row.', null=True)),
                ('instants', models.PositiveIntegerField(default=1, help_text='Number of instants of a range row.')),
                ('only_tasks', models.JSONField(help_text='Ids of the tasks to run; null: all.', null=True)),
                ('requested_by', models.CharField(blank=True, default='', help_text='Operator who requested it.', max_length=200)),
                ('request_reason', models.CharField(blank=True, default='', help_text='Why the operator requested it.', max_length=500)),
                ('report', models.JSONField(help_text='Summary of the outcome.', null=True)),
                ('created_at', models.DateTimeField()),
                ('fired_at', models.DateTimeField(help_text='When its runs were created.', null=True)),
                ('started_at', models.DateTimeField(help_text='When a worker claimed its first run.', null=True)),
                ('execution_timeout', models.DurationField()),
                ('deadline_at', models.DateTimeField(help_text='started_at + execution_timeout', null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('finalized_at', models.DateTimeField(help_text='When its completion hooks were called.', null=True)),
                ('settle_requested_at', models.DateTimeField(help_text='When a worker was last requested to settle it.', null=True)),
            ],
            options={
                'ordering': ['-scheduled_for', '-created_at'],
                'permissions': [('cancel_occurrence', 'Can cancel an occurrence'), ('replay_occurrence', 'Can replay an occurrence')],
            },
        ),
        migrations.CreateModel(
            name='Task',
            fields=[
                ('id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=200)),
                ('function', models.CharField(help_text='Name of a function that code registers.', max_length=500)),
                ('position', models.PositiveIntegerField()),
                ('config', models.JSONField(blank=True, default=dict, help_text='Overrides only; the rest is inherited.')),
                ('retired_at', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField()),
                ('updated_at', models.DateTimeField()),
            ],
            options={
                'ordering': ['job', 'position'],
            },
        ),
        migrations.CreateModel(
            name='Pause',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('began_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField()),
                ('reason', models.CharField(blank=True, default='', max_length=500)),
                ('backlog', models.CharField(help_text='Which skipped instants ran when it ended.', max_length=10)),
                ('job', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='pauses', to='punctual.job')),
            ],
            options={
                'ordering': ['job', 'began_at'],
                'constraints': [models.UniqueConstraint(fields=('job', 'began_at'), name='one_pause_per_beginning'), models.CheckConstraint(condition=models.Q(('ended_at__gte', models.F('began_at'))), name='pause_ends_after_it_begins')],
            },
        ),
        migrations.CreateModel(
            name='Pool',
            fields=[
                ('name', models.CharField(max_length=100, primary_key=True, serialize=False)),
                ('size', models.PositiveIntegerField()),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Process',
            fields=[
                ('name', models.CharField(help_text="A beat's host:pid; a worker's name in Celery.", max_length=255, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('beat', 'Beat'), ('worker', 'Worker')], max_length=10)),
                ('started_at', models.DateTimeField()),
                ('seen_at', models.DateTimeField(help_text="End of a beat's last tick; last renewal by a worker.")),
                ('tick_duration', models.DurationField(default=datetime.timedelta, help_text="How long a beat's last tick took; zero for a worker.")),
                ('queues', models.JSONField(default=list, help_text='Names of the queues that a worker consumes.')),
            ],
            options={
                'verbose_name_plural': 'processes',
                'ordering': ['-seen_at'],
            },
        ),
        migrations.CreateModel(
            name='Rejection',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('queue', models.CharField(blank=True, help_text='Empty: not known.', max_length=255)),
                ('problem', models.CharField(help_text='unreadable, malformed or unknown_task.', max_length=20)),
                ('count', models.PositiveBigIntegerField(default=0)),
                ('last_at', models.DateTimeField()),
                ('worker', models.CharField(blank=True, default='', max_length=255)),
                ('sample', models.TextField(blank=True, default='', help_text='The newest of them, shortened and redacted.')),
            ],
            options={
                'ordering': ['queue', 'problem'],
                'constraints': [models.UniqueConstraint(fields=('queue', 'problem'), name='one_count_per_queue_and_problem')],
            },
        ),
        migrations.CreateModel(
            name='PruneRound',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('due_at', models.DateTimeField(help_text='When the next step is due.')),
                ('began_at', models.DateTimeField(help_text='When this round started.')),
                ('job', models.UUIDField(help_text='The job to continue with.', null=True)),
                ('at', models.DateTimeField(help_text='The instant of the last row looked at.', null=True)),
                ('row', models.UUIDField(help_text='The id of the last row looked at.', null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Roster',
            fields=[
                ('id', models.PositiveSmallIntegerField(default=1, editable=False, primary_key=True, serialize=False)),
                ('scheduler_id', models.UUIDField(help_text='The scheduler that initialised last.', null=True)),
                ('initialized_at', models.DateTimeField(null=True)),
                ('digest', models.CharField(default='', help_text='SHA-256 of the registrations in force.', max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name='Tally',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('counter', models.CharField(choices=[('occurrences', 'finished occurrences'), ('attempts', 'finished attempts'), ('recoveries', 'recovered occurrences')], max_length=12)),
                ('task', models.CharField(blank=True, default='', max_length=200)),
                ('label', models.CharField(help_text='The state, or the strategy of recovery.', max_length=24)),
                ('count', models.PositiveBigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name='TaskRun',
            fields=[
                ('id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('function', models.CharField(help_text='Name of the function, as its version has it.', max_length=500)),
                ('position', models.PositiveIntegerField()),
                ('state', models.CharField(choices=[('scheduled', 'scheduled'), ('claimed', 'claimed'), ('running', 'running'), ('retry', 'waiting to retry'), ('success', 'success'), ('failed', 'failed'), ('dlq', 'dead letter'), ('canceled', 'canceled')], default='scheduled', max_length=12)),
                ('reason', models.CharField(blank=True, default='', max_length=200)),
                ('policy', models.JSONField(default=dict, help_text='Effective configuration of this run.')),
                ('attempts_made', models.PositiveIntegerField(default=0)),
                ('snoozes', models.PositiveIntegerField(default=0, help_text='Attempts that do not count: snoozed or handed back.')),
                ('available_at', models.DateTimeField(help_text='Not before; null: waits for an earlier task.', null=True)),
                ('dispatched_at', models.DateTimeField(help_text='When the broker accepted its message.', null=True)),
                ('dispatch_timeout', models.DurationField(help_text='How long it may wait for a worker; null: any time.', null=True)),
                ('parked_at', models.DateTimeField(help_text='Since when it cannot be claimed: its occurrence has no slot.', null=True)),
                ('claim_token', models.UUIDField(help_text='Fencing token: a worker that lost its claim cannot write.', null=True)),
                ('claimed_by', models.CharField(blank=True, default='', max_length=200)),
                ('lease_until', models.DateTimeField(null=True)),
                ('heartbeat_at', models.DateTimeField(null=True)),
                ('started_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('error', models.TextField(blank=True, default='')),
                ('fingerprint', models.CharField(blank=True, default='', help_text='Groups runs with the same error.', max_length=16)),
                ('progress', models.JSONField(help_text='Last value given to ctx.heartbeat().', null=True)),
                ('resolved_at', models.DateTimeField(help_text='When an operator replayed or purged the dead letter.', null=True)),
                ('resolution', models.CharField(blank=True, choices=[('replayed', 'replayed'), ('purged', 'purged')], default='', max_length=12)),
            ],
            options={
                'verbose_name': 'run',
                'ordering': ['occurrence', 'position'],
                'permissions': [('resolve_taskrun', 'Can replay and purge dead letters')],
            },
        ),
        migrations.CreateModel(
            name='Cursor',
            fields=[
                ('job', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='cursor', serialize=False, to='punctual.job')),
                ('settled_until', models.DateTimeField(help_text='Never moves back; no occurrence is created at or before it.')),
                ('planned_until', models.DateTimeField(help_text='How far occurrences are planned; null after an edit.', null=True)),
                ('plan_at', models.DateTimeField(help_text='When to plan again; null: never.', null=True)),
                ('catch_up_at', models.DateTimeField(help_text='When the next recovered, replayed or backfilled one may start; null: none is left.', null=True)),
                ('problem', models.TextField(blank=True, default='', help_text='Why the job cannot be planned.')),
                ('starts', models.PositiveIntegerField(default=0, help_text='Number of starts so far; the schedule option `max` bounds it.')),
            ],
        ),
        migrations.CreateModel(
            name='Pruned',
            fields=[
                ('job', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='punctual.job')),
                ('until', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='TaskState',
            fields=[
                ('job', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='polling_state', serialize=False, to='punctual.job')),
                ('scheduler_id', models.UUIDField(help_text='The scheduler that registered or started it last.')),
                ('retry_delay', models.DurationField()),
                ('counts_from', models.DateTimeField(help_text='The minute in which it was registered; earlier minutes do not count.')),
                ('last_attempt_at', models.DateTimeField(null=True)),
                ('last_success_at', models.DateTimeField(null=True)),
                ('pending_retry_until', models.DateTimeField(null=True)),
                ('revision', models.PositiveBigIntegerField(default=0)),
            ],
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('origin', 'code'), ('removed_at__isnull', True)), fields=['id'], name='job_declared'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.CheckConstraint(condition=models.Q(('name', ''), _negated=True), name='job_has_a_name'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.CheckConstraint(condition=models.Q(('version__gte', 1)), name='job_version_starts_at_one'),
        ),
        migrations.AddField(
            model_name='idempotencykey',
            name='job',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='punctual.job'),
        ),
        migrations.AddField(
            model_name='jobversion',
            name='job',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='punctual.job'),
        ),
        migrations.AddField(
            model_name='occurrence',
            name='job',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='occurrences', to='punctual.job'),
        ),
        migrations.AddField(
            model_name='occurrence',
            name='parent',
            field=models.ForeignKey(help_text='Occurrence that it repeats.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='children', to='punctual.occurrence'),
        ),
        migrations.CreateModel(
            name='Pace',
            fields=[
                ('task', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='pace', serialize=False, to='punctual.task')),
                ('p95', models.FloatField(help_text='Seconds.')),
                ('samples', models.PositiveIntegerField(help_text='Number of calls measured, all by one worker process.')),
                ('measured_at', models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name='task',
            name='job',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='tasks', to='punctual.job'),
        ),
        migrations.AddConstraint(
            model_name='process',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['beat', 'worker'])), name='process_is_beat_or_worker'),
        ),
        migrations.AddConstraint(
            model_name='roster',
            constraint=models.CheckConstraint(condition=models.Q(('id', 1)), name='there_is_one_roster'),
        ),
        migrations.AddField(
            model_name='tally',
            name='job',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='punctual.job'),
        ),
        migrations.AddField(
            model_name='taskrun',
            name='occurrence',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='punctual.occurrence'),
        ),
        migrations.AddField(
            model_name='taskrun',
            name='task',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='punctual.task'),
        ),
        migrations.AddField(
            model_name='attempt',
            name='run',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='attempts', to='punctual.taskrun'),
        ),
        migrations.AddIndex(
            model_name='cursor',
            index=models.Index(condition=models.Q(('plan_at__isnull', False)), fields=['plan_at'], name='cursor_due'),
        ),
        migrations.AddIndex(
            model_name='cursor',
            index=models.Index(condition=models.Q(('catch_up_at__isnull', False)), fields=['catch_up_at'], name='cursor_catch_up_due'),
        ),
        migrations.AddField(
            model_name='taskstate',
            name='run',
            field=models.OneToOneField(help_text='The run in progress, or the one that waits for its retry.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='punctual.taskrun'),
        ),
        migrations.AddConstraint(
            model_name='jobversion',
            constraint=models.UniqueConstraint(fields=('job', 'number'), name='one_version_per_number'),
        ),
        migrations.AddConstraint(
            model_name='jobversion',
            constraint=models.CheckConstraint(condition=models.Q(('number__gte', 1)), name='versions_start_at_one'),
        ),
        migrations.AddIndex(
            model_name='occurrence',
            index=models.Index(condition=models.Q(('cause__in', ('schedule', 'manual')), ('state', 'pending')), fields=['run_at'], name='occurrence_due'),
        ),
        migrations.AddIndex(
            model_name='occurrence',
            index=models.Index(condition=models.Q(('cause__in', ('recovery', 'replay', 'backfill')), ('state', 'pending')), fields=['job', 'run_at'], name='occurrence_to_catch_up'),
        ),
        migrations.AddIndex(
            model_name='occurrence',
            index=models.Index(condition=models.Q(('state', 'queued')), fields=['pool', '-priority', 'run_at'], name='occurrence_in_line'),
        ),
        migrations.AddIndex(
            model_name='occurrence',
            index=models.Index(condition=models.Q(('holds_slot', True)), fields=['pool'], name='occurrence_in_pool'),
        ),
        migrations.AddIndex(
            model_name='occurrence',
            index=models.Index(condition=models.Q(('slot_wanted_at__isnull', False)), fields=['pool', '-priority', 'run_at'], name='occurrence_wants_slot'),
        ),
        migrations.AddIndex(
            model_name='occurrence',
            index=models.Index(condition=models.Q(('state', 'queued')), fields=['job', 'run_at'], name='occurrence_waiting'),
        ),
        migrations.AddIndex(
            model_name='occurrence',
            index=models.Index(condition=models.Q(('state__in', ('dispatched', 'running'))), fields=['deadline_at'], name='occurrence_under_way'),
        ),
        migrations.AddIndex(
            model_name='occurrence',
            index=models.Index(condition=models.Q(('finalized_at__isnull', True), ('finished_at__isnull', False)), fields=['finished_at'], name='occurrence_unfinalized'),
        ),
        migrations.AddIndex(
            model_name='occurrence',
            index=models.Index(fields=['job', '-scheduled_for'], name='occurrence_history'),
        ),
        migrations.AddIndex(
            model_name='occurrence',
            index=models.Index(fields=['-scheduled_for'], name='occurrence_newest'),
        ),
        migrations.AddIndex(
            model_name='occurrence',
            index=models.Index(condition=models.Q(('started_at__isnull', False)), fields=['started_at'], name='occurrence_started'),
        ),
        migrations.AddIndex(
            model_name='occurrence',
            index=models.Index(fields=['state', '-scheduled_for'], name='occurrence_by_state'),
        ),
        migrations.AddIndex(
            model_name='occurrence',
            index=models.Index(condition=models.Q(('cause', 'schedule'), _negated=True), fields=['cause', '-scheduled_for'], name='occurrence_by_cause'),
        ),
        migrations.AddIndex(
            model_name='occurrence',
            index=models.Index(condition=models.Q(('spans_until__isnull', False)), fields=['job', 'scheduled_for'], name='occurrence_ranges'),
        ),
        migrations.AddConstraint(
            model_name='occurrence',
            constraint=models.UniqueConstraint(condition=models.Q(('exclusive', True), ('state__in', ('dispatched', 'running'))), fields=('job',), name='one_active_occurrence_per_exclusive_job'),
        ),
        migrations.AddConstraint(
            model_name='occurrence',
            constraint=punctual.jobs.check_constraints.Rules(name='occurrence_is_possible', rules={'occurrence_active_was_fired': models.Q(models.Q(('state__in', ('dispatched', 'running')), _negated=True), ('fired_at__isnull', False), _connector='OR'), 'occurrence_finished_iff_final': models.Q(models.Q(('finished_at__isnull', False), ('state__in', ('completed', 'completed_with_errors', 'failed', 'canceled', 'failed_stale', 'skipped', 'missed'))), models.Q(models.Q(('state__in', ('completed', 'completed_with_errors', 'failed', 'canceled', 'failed_stale', 'skipped', 'missed')), _negated=True), ('finished_at__isnull', True)), _connector='OR'), 'occurrence_range_never_runs': models.Q(models.Q(('instants', 1), ('spans_until__isnull', True)), models.Q(('instants__gt', 1), ('spans_until__gt', models.F('scheduled_for')), ('spans_until__isnull', False), ('state__in', ('skipped', 'missed'))), _connector='OR'), 'occurrence_running_has_started': models.Q(models.Q(('state', 'running'), _negated=True), ('started_at__isnull', False), _connector='OR'), 'occurrence_slot_while_active': models.Q(models.Q(('holds_slot', False), ('slot_wanted_at__isnull', True)), models.Q(('holds_slot', True), ('slot_wanted_at__isnull', True), ('state__in', ('dispatched', 'running'))), models.Q(('holds_slot', False), ('slot_wanted_at__isnull', False), ('state__in', ('dispatched', 'running'))), _connector='OR'), 'occurrence_state_is_known': models.Q(('state__in', ['pending', 'queued', 'dispatched', 'running', 'completed', 'completed_with_errors', 'failed', 'canceled', 'failed_stale', 'skipped', 'missed']))}),
        ),
        migrations.AddIndex(
            model_name='idempotencykey',
            index=models.Index(fields=['expires_at'], name='idempotency_key_expired'),
        ),
        migrations.AddConstraint(
            model_name='idempotencykey',
            constraint=models.UniqueConstraint(fields=('job', 'key'), name='one_occurrence_per_idempotency_key_of_a_job'),
        ),
        migrations.AddConstraint(
            model_name='pace',
            constraint=models.CheckConstraint(condition=models.Q(('p95__gte', 0)), name='pace_is_a_duration'),
        ),
        migrations.AddConstraint(
            model_name='task',
            constraint=models.UniqueConstraint(fields=('job', 'name'), name='one_task_per_name'),
        ),
        migrations.AddConstraint(
            model_name='task',
            constraint=models.CheckConstraint(condition=models.Q(('name', ''), _negated=True), name='task_has_a_name'),
        ),
        migrations.AddIndex(
            model_name='tally',
            index=models.Index(fields=['counter', 'job'], name='tally_of_job'),
        ),
        migrations.AddIndex(
            model_name='taskrun',
            index=models.Index(fields=['occurrence', 'position'], name='run_of_occurrence'),
        ),
        migrations.AddIndex(
            model_name='taskrun',
            index=models.Index(condition=models.Q(('dispatched_at__isnull', True), ('parked_at__isnull', True), ('state', 'scheduled')), fields=['available_at'], name='run_unsent'),
        ),
        migrations.AddIndex(
            model_name='taskrun',
            index=models.Index(condition=models.Q(('dispatched_at__isnull', False), ('parked_at__isnull', True), ('state', 'scheduled')), fields=['dispatched_at'], name='run_unclaimed'),
        ),
        migrations.AddIndex(
            model_name='taskrun',
            index=models.Index(condition=models.Q(('dispatch_timeout__isnull', False), ('state', 'scheduled')), fields=['available_at'], name='run_claim_due'),
        ),
        migrations.AddIndex(
            model_name='taskrun',
            index=models.Index(condition=models.Q(('parked_at__isnull', True), ('state', 'retry')), fields=['available_at'], name='run_retry_due'),
        ),
        migrations.AddIndex(
            model_name='taskrun',
            index=models.Index(condition=models.Q(('parked_at__isnull', False)), fields=['occurrence'], name='run_parked'),
        ),
        migrations.AddIndex(
            model_name='taskrun',
            index=models.Index(condition=models.Q(('state__in', ('claimed', 'running'))), fields=['lease_until'], name='run_expired'),
        ),
        migrations.AddIndex(
            model_name='taskrun',
            index=models.Index(condition=models.Q(('resolved_at__isnull', True), ('state', 'dlq')), fields=['-finished_at'], name='run_dead'),
        ),
        migrations.AddIndex(
            model_name='taskrun',
            index=models.Index(condition=models.Q(('resolved_at__isnull', True), ('state', 'dlq')), fields=['fingerprint', '-finished_at'], name='run_dead_by_error'),
        ),
        migrations.AddConstraint(
            model_name='taskrun',
            constraint=punctual.jobs.check_constraints.Rules(name='run_is_possible', rules={'run_claimed_iff_held': models.Q(models.Q(('claim_token__isnull', False), ('lease_until__isnull', False), ('state__in', ('claimed', 'running'))), models.Q(models.Q(('state__in', ('claimed', 'running')), _negated=True), ('claim_token__isnull', True), ('lease_until__isnull', True)), _connector='OR'), 'run_finished_iff_final': models.Q(models.Q(('finished_at__isnull', False), ('state__in', ('success', 'dlq', 'canceled'))), models.Q(models.Q(('state__in', ('success', 'dlq', 'canceled')), _negated=True), ('finished_at__isnull', True)), _connector='OR'), 'run_parked_while_waiting': models.Q(('parked_at__isnull', True), ('state__in', ('scheduled', 'retry')), _connector='OR'), 'run_resolved_only_when_dead': models.Q(models.Q(('resolution', ''), ('resolved_at__isnull', True)), models.Q(('resolved_at__isnull', False), ('state', 'dlq'), models.Q(('resolution', ''), _negated=True)), _connector='OR'), 'run_state_is_known': models.Q(('state__in', ['scheduled', 'claimed', 'running', 'retry', 'success', 'failed', 'dlq', 'canceled']))}),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=models.UniqueConstraint(fields=('run', 'number'), name='one_attempt_per_number'),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=punctual.jobs.check_constraints.Rules(name='attempt_is_possible', rules={'attempt_finished_iff_final': models.Q(models.Q(('finished_at__isnull', False), ('state__in', ('success', 'failed', 'timeout', 'lost', 'canceled', 'snoozed', 'released'))), models.Q(('finished_at__isnull', True), ('state', 'running')), _connector='OR'), 'attempt_state_is_known': models.Q(('state__in', ['running', 'success', 'failed', 'timeout', 'lost', 'canceled', 'snoozed', 'released']))}),
        ),
        migrations.AddConstraint(
            model_name='taskstate',
            constraint=models.CheckConstraint(condition=models.Q(('retry_delay__gte', datetime.timedelta(0))), name='polling_retry_delay_is_not_negative'),
        ),
        migrations.CreateModel(
            name='HookCall',
            fields=[
                ('id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('event', models.CharField(choices=[('on_start', 'on_start'), ('on_complete', 'on_complete')], max_length=12)),
                ('hook', models.CharField(help_text='Name of a hook that code registers.', max_length=500)),
                ('position', models.PositiveIntegerField(help_text='Hooks of one event are called in this order.')),
                ('tries', models.PositiveIntegerField(default=0)),
                ('slot', models.PositiveIntegerField(help_text='While it is called: one of `hook_slots`.', null=True)),
                ('token', models.UUIDField(help_text='Fencing token of the process that calls it.', null=True)),
                ('worker', models.CharField(blank=True, default='', max_length=200)),
                ('lease_until', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField()),
                ('requested_at', models.DateTimeField(help_text='When a worker was last asked to call it.', null=True)),
                ('started_at', models.DateTimeField(help_text='Start of the last try.', null=True)),
                ('hung_at', models.DateTimeField(help_text='When a try was last killed, or its process died.', null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('failed', models.BooleanField(default=False)),
                ('error', models.TextField(blank=True, default='')),
                ('occurrence', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='hook_calls', to='punctual.occurrence')),
            ],
            options={
                'verbose_name': 'call of a hook',
                'verbose_name_plural': 'calls of hooks',
                'ordering': ['occurrence', '-event', 'position'],
                'indexes': [models.Index(condition=models.Q(('finished_at__isnull', True)), fields=['created_at'], name='hook_call_open'), models.Index(condition=models.Q(('hung_at__isnull', False)), fields=['hook', 'hung_at'], name='hook_call_hung')],
                'constraints': [models.UniqueConstraint(fields=('occurrence', 'event', 'hook'), name='one_call_per_hook'), models.UniqueConstraint(condition=models.Q(('slot__isnull', False)), fields=('slot',), name='one_call_per_hook_slot'), models.CheckConstraint(condition=models.Q(models.Q(('lease_until__isnull', True), ('slot__isnull', True), ('token__isnull', True)), models.Q(('finished_at', None), ('lease_until__isnull', False), ('slot__isnull', False), ('token__isnull', False)), _connector='OR'), name='hook_slot_iff_called')],
            },
        ),
    ]

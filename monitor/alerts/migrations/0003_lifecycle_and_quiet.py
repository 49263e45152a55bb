import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("alerts", "0002_rules_of_many_kinds"),
        ("mesh", "0004_service_levels"),
    ]

    operations = [
        migrations.CreateModel(
            name="Deed",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("who", models.TextField()),
                ("what", models.TextField(help_text="As in `acknowledged incident 12`.")),
            ],
            options={
                "db_table": "deed",
            },
        ),
        migrations.CreateModel(
            name="Quiet",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.TextField(choices=[("silence", "Silence"), ("maintenance", "Maintenance")])),
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField(help_text="Of the first time.")),
                ("every_s", models.IntegerField(help_text="From one start to the next; null: once.", null=True)),
                ("until", models.DateTimeField(help_text="When a recurring one ends for good.", null=True)),
                ("reason", models.TextField(blank=True)),
                ("made_by", models.TextField()),
                ("made_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(help_text="When somebody ended it early.", null=True)),
            ],
            options={
                "db_table": "quiet",
            },
        ),
        migrations.RemoveConstraint(
            model_name="notification",
            name="change_notified_once_per_channel",
        ),
        migrations.AddField(
            model_name="incident",
            name="acknowledged_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="incident",
            name="acknowledged_by",
            field=models.TextField(blank=True),
        ),
        migrations.AddField(
            model_name="incident",
            name="correction",
            field=models.TextField(blank=True, help_text="What results that came late say of it."),
        ),
        migrations.AddField(
            model_name="incident",
            name="is_pending",
            field=models.BooleanField(default=False, help_text="Found, and not yet confirmed."),
        ),
        migrations.AddField(
            model_name="incident",
            name="reopened_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="incident",
            name="reopenings",
            field=models.IntegerField(default=0),
        ),
        migrations.AddField(
            model_name="incident",
            name="told_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="incidentpath",
            name="is_over",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="notification",
            name="reopening",
            field=models.IntegerField(default=0, help_text="After how many reopenings of the incident."),
        ),
        migrations.AlterField(
            model_name="incident",
            name="opened_at",
            field=models.DateTimeField(help_text="When it was found; of one that has reopened, for the first time."),
        ),
        migrations.AlterField(
            model_name="notification",
            name="change",
            field=models.TextField(choices=[("opened", "Opened"), ("reopened", "Reopened"), ("closed", "Closed")]),
        ),
        migrations.RunSQL(
            """
            UPDATE incident SET told_at = opened_at WHERE closed_at IS NULL;
            UPDATE incident_path SET is_over = true
            FROM incident WHERE incident.id = incident_path.incident_id AND incident.closed_at IS NOT NULL;
            SET CONSTRAINTS ALL IMMEDIATE;
            """,
            migrations.RunSQL.noop,
        ),
        migrations.AddConstraint(
            model_name="incidentpath",
            constraint=models.UniqueConstraint(
                condition=models.Q(("is_over", False)), fields=("path", "rule"), name="finding_in_one_lasting_incident"
            ),
        ),
        migrations.AddConstraint(
            model_name="notification",
            constraint=models.UniqueConstraint(
                fields=("incident", "change", "reopening", "channel"), name="change_notified_once_per_channel"
            ),
        ),
        migrations.AddField(
            model_name="deed",
            name="incident",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="deeds", to="alerts.incident"
            ),
        ),
        migrations.AddField(
            model_name="quiet",
            name="group",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="mesh.group"
            ),
        ),
        migrations.AddField(
            model_name="quiet",
            name="path",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="mesh.path"
            ),
        ),
        migrations.AddField(
            model_name="quiet",
            name="site",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="mesh.site"
            ),
        ),
        migrations.AddField(
            model_name="deed",
            name="quiet",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="deeds", to="alerts.quiet"
            ),
        ),
        migrations.AddConstraint(
            model_name="quiet",
            constraint=models.CheckConstraint(
                condition=models.Q(("ends_at__gt", models.F("starts_at"))), name="quiet_ends_after_start"
            ),
        ),
        migrations.AddConstraint(
            model_name="quiet",
            constraint=models.CheckConstraint(
                condition=models.Q(("every_s__isnull", True), ("every_s__gt", 0), _connector="OR"),
                name="quiet_recurs_forwards",
            ),
        ),
        migrations.AddIndex(
            model_name="deed",
            index=models.Index(fields=["-at"], name="deed_by_time"),
        ),
    ]

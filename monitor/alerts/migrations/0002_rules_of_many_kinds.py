import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """What a rule found is kept as figures of its own, in place of the loss rule's columns."""

    dependencies = [("alerts", "0001_initial"), ("mesh", "0003_capacity_tests")]

    operations = [
        migrations.CreateModel(
            name="JudgedPath",
            fields=[
                (
                    "path",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="mesh.path",
                    ),
                ),
                ("judged_s", models.FloatField(help_text="When the burst began, in seconds since the epoch.")),
            ],
            options={"db_table": "judged_path"},
        ),
        migrations.RemoveConstraint(model_name="incident", name="one_open_incident_per_cause"),
        migrations.AddConstraint(
            model_name="incident",
            constraint=models.UniqueConstraint(
                condition=models.Q(("closed_at__isnull", True)), fields=("cause",), name="one_open_incident_per_cause"
            ),
        ),
        migrations.AddField(
            model_name="incidentpath", name="rule", field=models.TextField(default="loss"), preserve_default=False
        ),
        migrations.AddField(
            model_name="incidentpath", name="sentence", field=models.TextField(default=""), preserve_default=False
        ),
        migrations.AddField(
            model_name="incidentpath",
            name="since",
            field=models.DateTimeField(help_text="When the trouble began, as far as the rule could tell.", null=True),
        ),
        migrations.AddField(
            model_name="incidentpath",
            name="figures",
            field=models.JSONField(
                default=dict, help_text="What the rule needs to tell whether it is over; each rule has its own."
            ),
            preserve_default=False,
        ),
        *(
            migrations.AlterField(model_name="incidentpath", name=name, field=field(null=True))
            for name, field in (
                ("window_s", models.IntegerField),
                ("sent", models.IntegerField),
                ("lost", models.IntegerField),
                ("loss_lower_ratio", models.FloatField),
                ("threshold_ratio", models.FloatField),
            )
        ),
        migrations.RunSQL(
            """
            UPDATE incident_path SET
                since = added_at - make_interval(secs => window_s),
                sentence = incident.summary,
                figures = jsonb_build_object(
                    'window_s', window_s, 'sent', sent, 'lost', lost, 'loss_lower_ratio', loss_lower_ratio,
                    'threshold_ratio', threshold_ratio
                )
            FROM incident
            WHERE incident.id = incident_path.incident_id
            """,
            # Back again only for the rule that there was.
            """
            DELETE FROM incident_path WHERE rule <> 'loss';
            UPDATE incident_path SET
                window_s = (figures ->> 'window_s')::integer, sent = (figures ->> 'sent')::integer,
                lost = (figures ->> 'lost')::integer, loss_lower_ratio = (figures ->> 'loss_lower_ratio')::float,
                threshold_ratio = (figures ->> 'threshold_ratio')::float
            """,
        ),
        # The update leaves triggers of foreign keys to be run, which must happen before the table is altered again.
        migrations.RunSQL("SET CONSTRAINTS ALL IMMEDIATE", "SET CONSTRAINTS ALL IMMEDIATE"),
        migrations.AlterField(
            model_name="incidentpath",
            name="since",
            field=models.DateTimeField(help_text="When the trouble began, as far as the rule could tell."),
        ),
        migrations.RemoveField(model_name="incidentpath", name="window_s"),
        migrations.RemoveField(model_name="incidentpath", name="sent"),
        migrations.RemoveField(model_name="incidentpath", name="lost"),
        migrations.RemoveField(model_name="incidentpath", name="loss_lower_ratio"),
        migrations.RemoveField(model_name="incidentpath", name="threshold_ratio"),
        migrations.RemoveConstraint(model_name="incidentpath", name="path_once_per_incident"),
        migrations.AddConstraint(
            model_name="incidentpath",
            constraint=models.UniqueConstraint(fields=("incident", "path", "rule"), name="finding_once_per_incident"),
        ),
    ]

"""Incidents with their paths, history and evidence; silences and maintenance; activity; notifications."""

from django.db import migrations, models

ID = ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"))


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("alerts", "0001_initial"),
        ("alerts", "0002_rules_of_many_kinds"),
        ("alerts", "0003_lifecycle_and_quiet"),
        ("alerts", "0004_history_and_deeds"),
        ("alerts", "0005_history_of_what_was"),
        ("alerts", "0006_evidence_and_delivery"),
        ("alerts", "0007_parts_of_incidents"),
    ]

    dependencies = [("mesh", "0001_mesh")]

    operations = [
        migrations.CreateModel(
            name="Incident",
            fields=[
                ID,
                ("rule", models.TextField()),
                ("cause", models.TextField()),
                (
                    "opened_at",
                    models.DateTimeField(help_text="Time of detection; after a reopening, of the first."),
                ),
                ("closed_at", models.DateTimeField(null=True)),
                ("summary", models.TextField()),
                ("closing", models.TextField(blank=True, help_text="Reason of the resolution; empty while open.")),
                ("acknowledged_at", models.DateTimeField(null=True)),
                ("acknowledged_by", models.TextField(blank=True)),
                ("correction", models.TextField(blank=True, help_text="Correction by results that arrived late.")),
                ("is_pending", models.BooleanField(default=False, help_text="Detected, not yet confirmed.")),
                ("reopened_at", models.DateTimeField(null=True)),
                ("reopenings", models.IntegerField(default=0)),
                ("told_at", models.DateTimeField(null=True)),
                (
                    "severity",
                    models.TextField(
                        choices=[("notice", "Notice"), ("warning", "Warning"), ("critical", "Critical")],
                        db_default="warning",
                        default="warning",
                    ),
                ),
                (
                    "shares",
                    models.JSONField(
                        db_default=[],
                        default=list,
                        help_text="Bad paths by place, as evidence of the cause: a list of detect.shares.Share.",
                    ),
                ),
                (
                    "has_grown",
                    models.BooleanField(
                        db_default=False,
                        default=False,
                        help_text="Has grown since the last notification, so that further routes may match.",
                    ),
                ),
                (
                    "merged_into",
                    models.ForeignKey(
                        help_text=("The incident that it was merged into, as a single cause explains both."),
                        null=True,
                        on_delete=models.SET_NULL,
                        related_name="parts",
                        to="alerts.incident",
                    ),
                ),
            ],
            options={
                "db_table": "incident",
                "indexes": [models.Index(fields=["-opened_at"], name="incident_by_time")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("closed_at__isnull", True), ("closed_at__gte", models.F("opened_at")), _connector="OR"
                        ),
                        name="incident_closes_after_it_opens",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("closed_at__isnull", True)),
                        fields=("cause",),
                        name="one_open_incident_per_cause",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="IncidentPath",
            fields=[
                ID,
                ("added_at", models.DateTimeField()),
                ("incident", models.ForeignKey(on_delete=models.CASCADE, related_name="paths", to="alerts.incident")),
                ("path", models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="mesh.path")),
                ("rule", models.TextField()),
                ("sentence", models.TextField()),
                ("since", models.DateTimeField(help_text="Beginning of the trouble, as estimated by the rule.")),
                (
                    "figures",
                    models.JSONField(
                        help_text="Figures by which the rule decides whether the finding is over, by rule."
                    ),
                ),
                ("is_over", models.BooleanField(default=False)),
            ],
            options={
                "db_table": "incident_path",
                "constraints": [
                    models.UniqueConstraint(fields=("incident", "path", "rule"), name="finding_once_per_incident"),
                    models.UniqueConstraint(
                        condition=models.Q(("is_over", False)),
                        fields=("path", "rule"),
                        name="finding_in_one_lasting_incident",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="IncidentTurn",
            fields=[
                ID,
                ("at", models.DateTimeField()),
                (
                    "turn",
                    models.TextField(
                        choices=[
                            ("found", "Found"),
                            ("widened", "Widened"),
                            ("opened", "Opened"),
                            ("acknowledged", "Acknowledged"),
                            ("unacknowledged", "Unacknowledged"),
                            ("corrected", "Corrected"),
                            ("merged", "Merged"),
                            ("resolved", "Resolved"),
                            ("reopened", "Reopened"),
                        ]
                    ),
                ),
                (
                    "note",
                    models.TextField(blank=True, help_text="The finding, the user, or the reason of the resolution."),
                ),
                ("incident", models.ForeignKey(on_delete=models.CASCADE, related_name="turns", to="alerts.incident")),
            ],
            options={
                "db_table": "incident_turn",
                "indexes": [models.Index(fields=["incident", "at"], name="incident_turn_in_order")],
            },
        ),
        migrations.CreateModel(
            name="IncidentEvidence",
            fields=[
                (
                    "incident",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        related_name="kept_evidence",
                        serialize=False,
                        to="alerts.incident",
                    ),
                ),
                ("version", models.SmallIntegerField()),
                ("gathered_at", models.DateTimeField()),
                ("facts", models.JSONField()),
            ],
            options={"db_table": "incident_evidence"},
        ),
        migrations.CreateModel(
            name="QuietPeriod",
            fields=[
                ID,
                ("kind", models.TextField(choices=[("silence", "Silence"), ("maintenance", "Maintenance")])),
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField(help_text="End of the first occurrence.")),
                (
                    "every_s",
                    models.IntegerField(help_text="Interval between starts; null if it does not repeat.", null=True),
                ),
                ("until", models.DateTimeField(help_text="End of the repetition.", null=True)),
                ("reason", models.TextField(blank=True)),
                ("made_by", models.TextField()),
                ("made_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(help_text="Time at which it was ended early.", null=True)),
                ("group", models.ForeignKey(null=True, on_delete=models.CASCADE, related_name="+", to="mesh.group")),
                ("path", models.ForeignKey(null=True, on_delete=models.CASCADE, related_name="+", to="mesh.path")),
                ("site", models.ForeignKey(null=True, on_delete=models.CASCADE, related_name="+", to="mesh.site")),
                (
                    "revision",
                    models.IntegerField(
                        db_default=0,
                        default=0,
                        help_text="Number of changes; a change must name the revision that it is based on.",
                    ),
                ),
            ],
            options={
                "db_table": "quiet",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("ends_at__gt", models.F("starts_at"))), name="quiet_ends_after_start"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("every_s__isnull", True), ("every_s__gt", 0), _connector="OR"),
                        name="quiet_recurs_forwards",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AuditRecord",
            fields=[
                ID,
                ("at", models.DateTimeField()),
                ("who", models.TextField()),
                ("what", models.TextField(help_text="The action, such as `acknowledged incident 12`.")),
                (
                    "incident",
                    models.ForeignKey(null=True, on_delete=models.SET_NULL, related_name="deeds", to="alerts.incident"),
                ),
                (
                    "quiet",
                    models.ForeignKey(
                        null=True, on_delete=models.SET_NULL, related_name="deeds", to="alerts.quietperiod"
                    ),
                ),
                ("comment", models.TextField(blank=True, db_default="", default="")),
                ("key", models.TextField(null=True)),
            ],
            options={
                "db_table": "deed",
                "indexes": [models.Index(fields=["-at"], name="deed_by_time")],
                "constraints": [models.UniqueConstraint(fields=("who", "key"), name="deed_done_once")],
            },
        ),
        migrations.CreateModel(
            name="Notification",
            fields=[
                ID,
                (
                    "change",
                    models.TextField(
                        choices=[
                            ("opened", "Opened"),
                            ("reopened", "Reopened"),
                            ("corrected", "Corrected"),
                            ("closed", "Closed"),
                        ]
                    ),
                ),
                ("channel", models.TextField()),
                ("due_at", models.DateTimeField()),
                ("attempts", models.SmallIntegerField(default=0)),
                ("sent_at", models.DateTimeField(null=True)),
                ("problem", models.TextField(blank=True, help_text="Why the last attempt failed.")),
                (
                    "incident",
                    models.ForeignKey(on_delete=models.CASCADE, related_name="notifications", to="alerts.incident"),
                ),
                ("reopening", models.IntegerField(default=0, help_text="Number of reopenings before it.")),
                (
                    "state",
                    models.TextField(
                        choices=[
                            ("waiting", "queued"),
                            ("sending", "sending"),
                            ("sent", "sent"),
                            ("dead", "failed"),
                            ("dropped", "dropped"),
                        ],
                        db_default="waiting",
                        default="waiting",
                    ),
                ),
                (
                    "is_digest",
                    models.BooleanField(
                        db_default=False,
                        default=False,
                        help_text="Sent in a digest with all other notifications due at that time.",
                    ),
                ),
                ("claimed_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "notification",
                "indexes": [
                    models.Index(
                        condition=models.Q(("sent_at__isnull", True)), fields=["due_at"], name="notification_unsent"
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("incident", "change", "reopening", "channel"), name="change_notified_once_per_channel"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="JudgedPath",
            fields=[
                (
                    "path",
                    models.OneToOneField(
                        on_delete=models.CASCADE, primary_key=True, related_name="+", serialize=False, to="mesh.path"
                    ),
                ),
                (
                    "judged_s",
                    models.FloatField(help_text="Start of the newest evaluated burst, in seconds since the epoch."),
                ),
            ],
            options={"db_table": "judged_path"},
        ),
    ]

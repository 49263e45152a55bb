"""Incidents with their paths, history and evidence; silences and maintenance; activity; notifications; annotations."""

from django.db import migrations, models

ID = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")
EMPTY = {"blank": True, "db_default": "", "default": ""}
TURNS = (
    "found", "widened", "narrowed", "worsened", "opened", "acknowledged", "unacknowledged", "corrected", "merged",
    "resolved", "reopened",
)  # fmt: skip
CHANGES = ("opened", "reopened", "worsened", "corrected", "closed")


def titled(words):
    return [(word, word.title()) for word in words]


TABLES = [
    migrations.CreateModel(
        "Incident",
        {
            "id": ID,
            **dict.fromkeys(("rule", "cause"), models.TextField()),
            "opened_at": models.DateTimeField(help_text="Time of detection; after a reopening, of the first."),
            "closed_at": models.DateTimeField(help_text="Time of resolution; null while it lasts.", null=True),
            "summary": models.TextField(),
            "closing": models.TextField(blank=True, help_text="Reason of the resolution; empty while open."),
            "acknowledged_at": models.DateTimeField(null=True),
            "acknowledged_by": models.TextField(blank=True),
            "correction": models.TextField(blank=True, help_text="Correction by results that arrived late."),
            "is_pending": models.BooleanField(default=False, help_text="Detected, not yet confirmed."),
            "reopened_at": models.DateTimeField(null=True),
            "reopenings": models.IntegerField(default=0),
            "told_at": models.DateTimeField(null=True),
            "severity": models.TextField(
                choices=titled(("notice", "warning", "critical")),
                db_default="warning",
                default="warning",
            ),
            "shares": models.JSONField(
                db_default=[],
                default=list,
                help_text="Bad paths by place, as evidence of the cause: a list of detect.shares.Share.",
            ),
            "has_grown": models.BooleanField(
                db_default=False,
                default=False,
                help_text="Has grown since the last notification, so that further routes may match.",
            ),
            "merged_into": models.ForeignKey(
                "alerts.incident",
                models.SET_NULL,
                help_text="The incident that it was merged into, as a single cause explains both.",
                null=True,
                related_name="parts",
            ),
            "began_at": models.DateTimeField(
                help_text="The likeliest onset by its evidence; null before that.", null=True
            ),
            "toward": models.TextField(
                **EMPTY,
                help_text="Direction that loses packets, as throughput tests tell it where pings cannot; "
                "empty if unknown.",
            ),
            "title": models.TextField(
                **EMPTY,
                help_text="Title as of the last evaluation, by its tracks, and after its end; empty before the first.",
            ),
            "told_rule": models.TextField(
                **EMPTY, help_text="The gravest rule at the last notification; empty before."
            ),
            "ended_at": models.DateTimeField(
                help_text="When its last trouble ended, once it is resolved; null if nothing tells.", null=True
            ),
            "toward_by": models.TextField(**EMPTY, help_text="The tests that tell this direction; empty if unknown."),
            "began_within_s": models.FloatField(
                help_text="Width of the 95% interval of began_at; null without one.", null=True
            ),
            "told_cause": models.TextField(**EMPTY, help_text="Its cause at the last notification; empty before."),
            "over_since": models.DateTimeField(
                help_text="Since when all its tracks are normal again; null before.", null=True
            ),
        }.items(),
        {
            "db_table": "incident",
            "indexes": [models.Index(fields=["-opened_at"], name="incident_by_time")],
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(closed_at__isnull=True) | models.Q(closed_at__gte=models.F("opened_at")),
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
        "IncidentPath",
        {
            "id": ID,
            "added_at": models.DateTimeField(),
            "incident": models.ForeignKey("alerts.incident", models.CASCADE, related_name="paths"),
            "path": models.ForeignKey("mesh.path", models.PROTECT, related_name="+"),
            **dict.fromkeys(("rule", "sentence"), models.TextField()),
            "since": models.DateTimeField(
                help_text="Start as the rule dates it: of its window of packets or tests, the last reply before, "
                "or the first burst at a new RTT. The onset is the incident's began_at."
            ),
            "figures": models.JSONField(
                help_text="Figures by which the rule decides whether the finding is over, by rule."
            ),
            "is_over": models.BooleanField(default=False),
            "level": models.JSONField(
                help_text="The track of its signal while it lasts, as present.models.copy_of; null if unknown.",
                null=True,
            ),
            "ended_at": models.DateTimeField(
                help_text="End of the finding; null while it lasts, or if unknown.", null=True
            ),
            "closing": models.TextField(**EMPTY, help_text="Reason of its end; empty before."),
        }.items(),
        {
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
        "IncidentTurn",
        {
            "id": ID,
            "at": models.DateTimeField(),
            "turn": models.TextField(choices=titled(TURNS)),
            "note": models.TextField(blank=True, help_text="The finding, the user, or the reason of the resolution."),
            "incident": models.ForeignKey("alerts.incident", models.CASCADE, related_name="turns"),
            "earlier_began_at": models.DateTimeField(
                help_text="Of a reopening: the onset of the time before it.", null=True
            ),
            "earlier_ended_at": models.DateTimeField(
                help_text="Of a reopening: the last bad burst before it.", null=True
            ),
        }.items(),
        {
            "db_table": "incident_turn",
            "indexes": [models.Index(fields=["incident", "at"], name="incident_turn_in_order")],
        },
    ),
    migrations.CreateModel(
        "IncidentEvidence",
        {
            "incident": models.OneToOneField(
                "alerts.incident", models.CASCADE, primary_key=True, related_name="kept_evidence", serialize=False
            ),
            "version": models.SmallIntegerField(),
            "gathered_at": models.DateTimeField(),
            "facts": models.JSONField(),
        }.items(),
        {"db_table": "incident_evidence"},
    ),
    migrations.CreateModel(
        "QuietPeriod",
        {
            "id": ID,
            "kind": models.TextField(choices=titled(("silence", "maintenance"))),
            "starts_at": models.DateTimeField(),
            "ends_at": models.DateTimeField(help_text="End of the first occurrence."),
            "every_s": models.IntegerField(help_text="Interval between starts; null if it does not repeat.", null=True),
            "until": models.DateTimeField(help_text="End of the repetition.", null=True),
            "reason": models.TextField(blank=True),
            "made_by": models.TextField(),
            "made_at": models.DateTimeField(),
            "ended_at": models.DateTimeField(help_text="Time at which it was ended early.", null=True),
            "group": models.ForeignKey("mesh.group", models.CASCADE, null=True, related_name="+"),
            "path": models.ForeignKey("mesh.path", models.CASCADE, null=True, related_name="+"),
            "site": models.ForeignKey("mesh.site", models.CASCADE, null=True, related_name="+"),
            "revision": models.IntegerField(
                db_default=0,
                default=0,
                help_text="Number of changes; a change must name the revision that it is based on.",
            ),
        }.items(),
        {
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
        "AuditRecord",
        {
            "id": ID,
            "at": models.DateTimeField(),
            "who": models.TextField(),
            "what": models.TextField(help_text="The action, such as `acknowledged incident 12`."),
            "incident": models.ForeignKey("alerts.incident", models.SET_NULL, null=True, related_name="deeds"),
            "quiet": models.ForeignKey("alerts.quietperiod", models.SET_NULL, null=True, related_name="deeds"),
            "comment": models.TextField(**EMPTY),
            "key": models.TextField(null=True),
        }.items(),
        {
            "db_table": "deed",
            "indexes": [models.Index(fields=["-at"], name="deed_by_time")],
            "constraints": [models.UniqueConstraint(fields=("who", "key"), name="deed_done_once")],
        },
    ),
    migrations.CreateModel(
        "Notification",
        {
            "id": ID,
            "change": models.TextField(choices=titled(CHANGES)),
            "channel": models.TextField(),
            "due_at": models.DateTimeField(),
            "attempts": models.SmallIntegerField(default=0),
            "sent_at": models.DateTimeField(null=True),
            "problem": models.TextField(blank=True, help_text="Why the last attempt failed."),
            "incident": models.ForeignKey("alerts.incident", models.CASCADE, related_name="notifications"),
            "reopening": models.IntegerField(default=0, help_text="Number of reopenings before it."),
            "state": models.TextField(
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
            "is_digest": models.BooleanField(
                db_default=False,
                default=False,
                help_text="Sent in a digest with all other notifications due at that time.",
            ),
            "claimed_at": models.DateTimeField(null=True),
            "symptom": models.TextField(
                **EMPTY, help_text="The graver rule that joined, if the incident has worsened."
            ),
        }.items(),
        {
            "db_table": "notification",
            "indexes": [
                models.Index(
                    condition=models.Q(("sent_at__isnull", True)), fields=["due_at"], name="notification_unsent"
                )
            ],
            "constraints": [
                models.UniqueConstraint(
                    fields=("incident", "change", "symptom", "reopening", "channel"),
                    name="change_notified_once_per_channel",
                )
            ],
        },
    ),
    migrations.CreateModel(
        "JudgedPath",
        {
            "path": models.OneToOneField(
                "mesh.path", models.CASCADE, primary_key=True, related_name="+", serialize=False
            ),
            "judged_s": models.FloatField(help_text="Start of the newest evaluated burst, in seconds since the epoch."),
        }.items(),
        {"db_table": "judged_path"},
    ),
    migrations.CreateModel(
        "JudgedDelays",
        {
            "path": models.OneToOneField(
                "mesh.path", models.CASCADE, primary_key=True, related_name="+", serialize=False
            ),
            "judged_s": models.FloatField(help_text="Start of the newest evaluated cycle, in seconds since the epoch."),
        }.items(),
        {"db_table": "judged_delays"},
    ),
    migrations.CreateModel(
        "Annotation",
        {
            "id": ID,
            "at": models.DateTimeField(db_index=True),
            **dict.fromkeys(("text", "made_by"), models.TextField()),
            "made_at": models.DateTimeField(),
            "removed_at": models.DateTimeField(null=True),
            "removed_by": models.TextField(**EMPTY),
            "path": models.ForeignKey("mesh.path", models.CASCADE, null=True, related_name="+"),
            "site": models.ForeignKey("mesh.site", models.CASCADE, null=True, related_name="+"),
        }.items(),
        {"db_table": "annotation"},
    ),
]


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("alerts", "0001_incidents"), ("alerts", "0002_levels_and_onset"), ("alerts", "0003_incident_direction"),
        ("alerts", "0004_incident_title"), ("alerts", "0005_finding_end"), ("alerts", "0006_worsened"),
        ("alerts", "0007_incident_end"), ("alerts", "0008_toward_by"), ("alerts", "0009_judged_delays"),
        ("alerts", "0010_annotation"), ("alerts", "0011_worst_loss"), ("alerts", "0012_began_within"),
        ("alerts", "0013_time_before_reopening"), ("alerts", "0014_raised_rtt"), ("alerts", "0015_told_cause"),
        ("alerts", "0016_over_since"), ("alerts", "0017_finding_track"),
    ]  # fmt: skip

    dependencies = [("mesh", "0001_squashed_0014_tables")]

    operations = TABLES

"""Incidents, silences and maintenance, notifications, and the audit log.

States change only in `incidents.lifecycle` and `notify.deliver`; constraints prevent double openings and notifications.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import models


class IncidentState(models.TextChoices):
    """State of an incident, derived from its times; it lasts in the first three."""

    PENDING = "pending"
    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"


class Severity(models.TextChoices):
    """Severity of an incident, lowest first."""

    NOTICE = "notice"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class Incident(models.Model):
    """A cause with its findings; `rule` is the gravest rule.

    `closed_at` is null while it lasts, `told_at` unless its last opening, and not its end, was notified.
    """

    rule = models.TextField()
    cause = models.TextField()
    severity = models.TextField(choices=Severity, default=Severity.WARNING, db_default="warning")
    shares = models.JSONField(
        default=list,
        db_default=[],
        help_text="Bad paths by place, as evidence of the cause: a list of detect.shares.Share.",
    )
    is_pending = models.BooleanField(default=False, help_text="Detected, not yet confirmed.")
    opened_at = models.DateTimeField(help_text="Time of detection; after a reopening, of the first.")
    began_at = models.DateTimeField(null=True, help_text="The likeliest onset by its evidence; null before that.")
    began_within_s = models.FloatField(null=True, help_text="Width of the 95% interval of began_at; null without one.")
    toward = models.TextField(
        blank=True,
        default="",
        db_default="",
        help_text="Direction that loses packets, as throughput tests tell it where pings cannot; empty if unknown.",
    )
    toward_by = models.TextField(
        blank=True, default="", db_default="", help_text="The tests that tell this direction; empty if unknown."
    )
    closed_at = models.DateTimeField(null=True, help_text="Time of resolution; null while it lasts.")
    ended_at = models.DateTimeField(
        null=True, help_text="When its last trouble ended, once it is resolved; null if nothing tells."
    )
    over_since = models.DateTimeField(null=True, help_text="Since when all its tracks are normal again; null before.")
    summary = models.TextField()
    title = models.TextField(
        blank=True,
        default="",
        db_default="",
        help_text="Title as of the last evaluation, by its tracks, and after its end; empty before the first.",
    )
    closing = models.TextField(blank=True, help_text="Reason of the resolution; empty while open.")
    correction = models.TextField(blank=True, help_text="Correction by results that arrived late.")
    reopened_at = models.DateTimeField(null=True)
    reopenings = models.IntegerField(default=0)
    told_at = models.DateTimeField(null=True)
    told_rule = models.TextField(
        blank=True, default="", db_default="", help_text="The gravest rule at the last notification; empty before."
    )
    told_cause = models.TextField(
        blank=True, default="", db_default="", help_text="Its cause at the last notification; empty before."
    )
    has_grown = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Has grown since the last notification, so that further routes may match.",
    )
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.TextField(blank=True)
    merged_into = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, related_name="parts",
        help_text="The incident that it was merged into, as a single cause explains both.",
    )  # fmt: skip

    class Meta:
        db_table = "incident"
        constraints = [
            models.UniqueConstraint(
                fields=["cause"], condition=models.Q(closed_at__isnull=True), name="one_open_incident_per_cause"
            ),
            models.CheckConstraint(
                condition=models.Q(closed_at__isnull=True) | models.Q(closed_at__gte=models.F("opened_at")),
                name="incident_closes_after_it_opens",
            ),
        ]
        indexes = [models.Index(fields=["-opened_at"], name="incident_by_time")]

    def __str__(self) -> str:
        return self.summary

    @property
    def path_ids(self) -> list[int]:
        return list(dict.fromkeys(row.path_id for row in self.paths.all()))

    @property
    def state(self) -> IncidentState:
        if self.closed_at is not None:
            return IncidentState.RESOLVED
        if self.is_pending:
            return IncidentState.PENDING
        return IncidentState.OPEN if self.acknowledged_at is None else IncidentState.ACKNOWLEDGED


# An open incident to notify, or a grown incident, for which further routes may match.
UNTOLD = models.Q(is_pending=False, closed_at__isnull=True, acknowledged_at__isnull=True) & (
    models.Q(told_at__isnull=True) | models.Q(has_grown=True)
)


class IncidentPath(models.Model):
    """A rule on a path in an incident, with the figures when added; unique among lasting incidents."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="paths")
    path = models.ForeignKey("mesh.Path", on_delete=models.PROTECT, related_name="+")
    added_at = models.DateTimeField()
    rule = models.TextField()
    sentence = models.TextField()
    since = models.DateTimeField(
        help_text="Start as the rule dates it: of its window of packets or tests, the last reply before, or the first "
        "burst at a new RTT. The onset is the incident's began_at."
    )
    figures = models.JSONField(help_text="Figures by which the rule decides whether the finding is over, by rule.")
    is_over = models.BooleanField(default=False)
    ended_at = models.DateTimeField(null=True, help_text="End of the finding; null while it lasts, or if unknown.")
    closing = models.TextField(blank=True, default="", db_default="", help_text="Reason of its end; empty before.")
    level = models.JSONField(
        null=True, help_text="The track of its signal while it lasts, as present.models.copy_of; null if unknown."
    )

    class Meta:
        db_table = "incident_path"
        constraints = [
            models.UniqueConstraint(fields=["incident", "path", "rule"], name="finding_once_per_incident"),
            models.UniqueConstraint(
                fields=["path", "rule"], condition=models.Q(is_over=False), name="finding_in_one_lasting_incident"
            ),
        ]


class IncidentEvidence(models.Model):
    """`Facts` of that `version`, kept since raw bursts expire earlier."""

    incident = models.OneToOneField(Incident, on_delete=models.CASCADE, primary_key=True, related_name="kept_evidence")
    version = models.SmallIntegerField()
    gathered_at = models.DateTimeField()
    facts = models.JSONField()

    class Meta:
        db_table = "incident_evidence"


class HistoryEvent(models.TextChoices):
    FOUND = "found"
    WIDENED = "widened"
    NARROWED = "narrowed"
    WORSENED = "worsened"
    OPENED = "opened"
    ACKNOWLEDGED = "acknowledged"
    UNACKNOWLEDGED = "unacknowledged"
    CORRECTED = "corrected"
    MERGED = "merged"
    RESOLVED = "resolved"
    REOPENED = "reopened"


class IncidentTurn(models.Model):
    """An event in the history of an incident, written in the transaction of the change."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="turns")
    at = models.DateTimeField()
    turn = models.TextField(choices=HistoryEvent)
    note = models.TextField(blank=True, help_text="The finding, the user, or the reason of the resolution.")
    earlier_began_at = models.DateTimeField(null=True, help_text="Of a reopening: the onset of the time before it.")
    earlier_ended_at = models.DateTimeField(null=True, help_text="Of a reopening: the last bad burst before it.")

    class Meta:
        db_table = "incident_turn"
        indexes = [models.Index(fields=["incident", "at"], name="incident_turn_in_order")]


class JudgedPath(models.Model):
    """The last judged burst of a path's round trips, so that each is judged once."""

    path = models.OneToOneField("mesh.Path", on_delete=models.CASCADE, primary_key=True, related_name="+")
    judged_s = models.FloatField(help_text="Start of the newest evaluated burst, in seconds since the epoch.")

    class Meta:
        db_table = "judged_path"


class JudgedDelays(models.Model):
    """The last judged STAMP cycle of a path's one-way delays, as `JudgedPath`."""

    path = models.OneToOneField("mesh.Path", on_delete=models.CASCADE, primary_key=True, related_name="+")
    judged_s = models.FloatField(help_text="Start of the newest evaluated cycle, in seconds since the epoch.")

    class Meta:
        db_table = "judged_delays"


class IncidentChange(models.TextChoices):
    """The changes of an incident that are notified."""

    OPENED = "opened"
    REOPENED = "reopened"
    WORSENED = "worsened"
    CORRECTED = "corrected"
    CLOSED = "closed"


class DeliveryState(models.TextChoices):
    WAITING = "waiting", "queued"
    SENDING = "sending", "sending"
    SENT = "sent", "sent"
    DEAD = "dead", "failed"
    DROPPED = "dropped", "dropped"


class Notification(models.Model):
    """A notification of a change to a channel, queued in the transaction of the change and sent from `due_at`.

    A SENDING row claimed long ago is orphaned and retried.
    """

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="notifications")
    change = models.TextField(choices=IncidentChange)
    symptom = models.TextField(
        blank=True, default="", db_default="", help_text="The graver rule that joined, if the incident has worsened."
    )
    reopening = models.IntegerField(default=0, help_text="Number of reopenings before it.")
    channel = models.TextField()
    is_digest = models.BooleanField(
        default=False, db_default=False, help_text="Sent in a digest with all other notifications due at that time."
    )
    due_at = models.DateTimeField()
    state = models.TextField(choices=DeliveryState, default=DeliveryState.WAITING, db_default="waiting")
    claimed_at = models.DateTimeField(null=True)
    attempts = models.SmallIntegerField(default=0)
    sent_at = models.DateTimeField(null=True)
    problem = models.TextField(blank=True, help_text="Why the last attempt failed.")

    class Meta:
        db_table = "notification"
        constraints = [
            models.UniqueConstraint(
                fields=["incident", "change", "symptom", "reopening", "channel"],
                name="change_notified_once_per_channel",
            )
        ]
        indexes = [
            models.Index(fields=["due_at"], condition=models.Q(sent_at__isnull=True), name="notification_unsent")
        ]

    def __str__(self) -> str:
        symptom = f"-{self.symptom}" if self.symptom else ""
        return f"{self.incident_id}-{self.change}-{self.reopening}{symptom}"

    @property
    def state_text(self) -> str:
        return str(DeliveryState(self.state).label)


class QuietPeriod(models.Model):
    """A silence mutes notifications of incidents; during maintenance no incident opens either.

    Covers the whole mesh if no place is given; repeats by `every_s`, up to `until` if set.
    """

    class Kind(models.TextChoices):
        SILENCE = "silence"
        MAINTENANCE = "maintenance"

    kind = models.TextField(choices=Kind)
    path = models.ForeignKey("mesh.Path", null=True, on_delete=models.CASCADE, related_name="+")
    site = models.ForeignKey("mesh.Site", null=True, on_delete=models.CASCADE, related_name="+")
    group = models.ForeignKey("mesh.Group", null=True, on_delete=models.CASCADE, related_name="+")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField(help_text="End of the first occurrence.")
    every_s = models.IntegerField(null=True, help_text="Interval between starts; null if it does not repeat.")
    until = models.DateTimeField(null=True, help_text="End of the repetition.")
    reason = models.TextField(blank=True)
    made_by = models.TextField()
    made_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, help_text="Time at which it was ended early.")
    revision = models.IntegerField(
        default=0, db_default=0, help_text="Number of changes; a change must name the revision that it is based on."
    )

    class Meta:
        db_table = "quiet"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(ends_at__gt=models.F("starts_at")), name="quiet_ends_after_start"
            ),
            models.CheckConstraint(
                condition=models.Q(every_s__isnull=True) | models.Q(every_s__gt=0), name="quiet_recurs_forwards"
            ),
        ]

    def holds_at(self, now: datetime) -> bool:
        if now < self.starts_at or (self.ended_at is not None and now >= self.ended_at):
            return False
        if self.every_s is None:
            return now < self.ends_at
        if self.until is not None and now >= self.until:
            return False
        into = (now - self.starts_at) % timedelta(seconds=self.every_s)
        return into < self.ends_at - self.starts_at

    def held_until(self, now: datetime) -> datetime:
        """When it was last in force up to `now`, repetitions included."""
        latest = min(end for end in (now, self.until, self.ended_at) if end is not None)
        begun_at = self.starts_at
        if self.every_s is not None:
            every = timedelta(seconds=self.every_s)
            begun_at += (latest - begun_at) // every * every
        return min(latest, begun_at + (self.ends_at - self.starts_at))


class Annotation(models.Model):
    """A change that an operator noted; of the whole mesh without path and site."""

    path = models.ForeignKey("mesh.Path", null=True, on_delete=models.CASCADE, related_name="+")
    site = models.ForeignKey("mesh.Site", null=True, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField(db_index=True)
    text = models.TextField()
    made_by = models.TextField()
    made_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True)
    removed_by = models.TextField(blank=True, default="", db_default="")

    class Meta:
        db_table = "annotation"


class AuditRecord(models.Model):
    """An audit record of a user's action, never changed; `key` is the request's idempotency key."""

    at = models.DateTimeField()
    who = models.TextField()
    what = models.TextField(help_text="The action, such as `acknowledged incident 12`.")
    comment = models.TextField(blank=True, default="", db_default="")
    key = models.TextField(null=True)
    incident = models.ForeignKey(Incident, null=True, on_delete=models.SET_NULL, related_name="deeds")
    quiet = models.ForeignKey(QuietPeriod, null=True, on_delete=models.SET_NULL, related_name="deeds")

    class Meta:
        db_table = "deed"
        constraints = [models.UniqueConstraint(fields=["who", "key"], name="deed_done_once")]
        indexes = [models.Index(fields=["-at"], name="deed_by_time")]

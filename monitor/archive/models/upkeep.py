"""Records of the archive about itself: load, table sizes, retention, last runs."""

from __future__ import annotations

from django.db import models


class CentreSample(models.Model):
    """Load of the centre, sampled each minute by its worker."""

    at = models.DateTimeField(primary_key=True)
    since = models.DateTimeField(help_text="start of the counts: the previous sample")
    accepted = models.IntegerField(help_text="results stored since then")
    refused = models.IntegerField()
    newest_measured_at = models.DateTimeField(null=True, help_text="newest of all results")
    queued = models.BigIntegerField(help_text="results in all agents' spools, by their last reports")
    queue_length = models.IntegerField(null=True, help_text="tasks queued in Redis; null while Redis is unreachable")
    hours_waiting = models.IntegerField(help_text="pending rollups")
    waited_s = models.FloatField(help_text="age of the oldest; 0 without any")
    database_bytes = models.BigIntegerField()
    evaluated_at = models.DateTimeField(null=True, help_text="of the alert rules; null in samples of earlier releases")

    class Meta:
        db_table = "centre_sample"


class TableSize(models.Model):
    """Size of a table, recorded each hour."""

    pk = models.CompositePrimaryKey("name", "at")
    name = models.TextField()
    at = models.DateTimeField()
    row_estimate = models.BigIntegerField()
    total_bytes = models.BigIntegerField()

    class Meta:
        db_table = "table_size"


class KeptSince(models.Model):
    """Time since which all records of a key are complete, not deleted or uncomputed."""

    key = models.TextField(help_text="ledger, slots, or slot_minima while earlier ones are computed")
    since = models.DateTimeField()

    class Meta:
        db_table = "kept_since"
        constraints = [models.UniqueConstraint(fields=["key"], name="one_time_a_key")]


class LastRun(models.Model):
    """Last completion of a `monitor.archive.upkeep.freshness.RecurringWork` task."""

    name = models.TextField()
    at = models.DateTimeField()

    class Meta:
        db_table = "last_run"
        constraints = [models.UniqueConstraint(fields=["name"], name="one_last_run_a_name")]


class ColdFile(models.Model):
    """File with bursts of consecutive paths of a UTC day."""

    day = models.DateField()
    name = models.TextField(help_text="below the folder of cold bursts")
    first_path_id = models.IntegerField()
    last_path_id = models.IntegerField()
    bursts = models.BigIntegerField()
    size_bytes = models.BigIntegerField()
    sha256 = models.TextField()
    day_bursts = models.BigIntegerField(help_text="of the whole day, in all files that were written with this file")
    day_keys = models.DecimalField(max_digits=40, decimal_places=0, help_text="sum of the hashes of their keys")

    class Meta:
        db_table = "cold_file"
        constraints = [models.UniqueConstraint(fields=["day", "first_path_id", "name"], name="cold_file_by_day")]

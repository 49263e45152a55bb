"""Loaded address tables, and reverse names of routers."""

from __future__ import annotations

import uuid

from django.db import models


class TableName(models.TextChoices):
    AS = "asn", "AS numbers"
    IXP = "ixp", "Internet exchange points"


class LoadedTable(models.Model):
    """An address table, compressed by `address_table.pack`."""

    name = models.TextField(primary_key=True, choices=TableName)
    version = models.UUIDField(default=uuid.uuid4, help_text="Different after each load.")
    source = models.TextField()
    licence = models.TextField(blank=True)
    dated_at = models.DateTimeField(null=True, help_text="Date of the data; null if the file has none.")
    loaded_at = models.DateTimeField()
    ipv4_ranges = models.PositiveIntegerField()
    ipv6_ranges = models.PositiveIntegerField()
    as_count = models.PositiveIntegerField()
    content = models.BinaryField()

    class Meta:
        db_table = "loaded_table"

    def __str__(self) -> str:
        return self.name


class NameOutcome(models.TextChoices):
    NAMED = "named"
    NO_NAME = "no_name"
    NO_ANSWER = "no_answer"


class ReverseName(models.Model):
    """PTR name, cached with negative results; `outcome` is null until resolved."""

    address = models.TextField(primary_key=True)
    name = models.TextField(null=True, help_text="The last name; null if there is none.")
    outcome = models.TextField(null=True, choices=NameOutcome)
    resolved_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(help_text="When it is to be resolved, or resolved again.")
    seen_at = models.DateTimeField(help_text="When it was last on a route, to the day.")

    class Meta:
        db_table = "reverse_name"
        indexes = [models.Index(fields=["due_at"], name="reverse_name_by_due")]

    def __str__(self) -> str:
        return self.address

"""Versions of the sites' plans, to see without building that a plan is unchanged.

Database triggers (migration `0002_squashed_0014_plans`) write `PlanEpoch` and `SitePlanChange`.
"""

from __future__ import annotations

from django.db import models

from monitor.mesh.models.places import Site


class PlanEpoch(models.Model):
    """Single row that counts changes: of all plans' inputs, and of slot reservations."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    epoch = models.BigIntegerField(db_default=0, help_text="grows with each change of sites, hosts, paths and tests")
    slots_epoch = models.BigIntegerField(db_default=0, help_text="grows with each change of slot_host")

    class Meta:
        db_table = "plan_epoch"
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="only_one_plan_epoch")]


class SitePlanChange(models.Model):
    """Mark that a transaction changed an input of this site's plan, until it is rebuilt."""

    pk = models.CompositePrimaryKey("site_id", "xact")
    site_id = models.BigIntegerField()
    xact = models.BigIntegerField(help_text="the transaction: two of them never wait for each other here")

    class Meta:
        db_table = "plan_change"


class SitePlan(models.Model):
    """Version of a site's plan, valid at its epoch until `valid_until`, without a `SitePlanChange`."""

    site = models.OneToOneField(Site, on_delete=models.CASCADE, primary_key=True, related_name="+")
    version = models.TextField(null=True, help_text="null while the plan changes with every moment")
    maker = models.TextField(help_text="digest of the code and the secret key that made it")
    epoch = models.BigIntegerField()
    valid_until = models.DateTimeField()

    class Meta:
        db_table = "site_plan"

"""Versions of the sites' plans, stored so that a plan need not be built to see that it has not changed.

Triggers of the database (migration `0002_squashed_0014_plans`) write `PlanEpoch` and `SitePlanChange`, whoever changes
a row. `monitor.mesh.stored_plans` reads them.
"""

from __future__ import annotations

from django.db import models

from monitor.mesh.models.places import Site


class PlanEpoch(models.Model):
    """The single row that counts changes: of what all plans are made of, and of the reservations of slots."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    epoch = models.BigIntegerField(db_default=0, help_text="grows with each change of sites, hosts, paths and tests")
    slots_epoch = models.BigIntegerField(db_default=0, help_text="grows with each change of slot_host")

    class Meta:
        db_table = "plan_epoch"
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="only_one_plan_epoch")]


class SitePlanChange(models.Model):
    """A transaction changed a row that the plan of this site is made of; deleted when its plan is built again."""

    pk = models.CompositePrimaryKey("site_id", "xact")
    site_id = models.BigIntegerField()
    xact = models.BigIntegerField(help_text="the transaction: two of them never wait for each other here")

    class Meta:
        db_table = "plan_change"


class SitePlan(models.Model):
    """Version of a site's plan. Valid at its epoch until `valid_until`, and while the site has no `SitePlanChange`."""

    site = models.OneToOneField(Site, on_delete=models.CASCADE, primary_key=True, related_name="+")
    version = models.TextField(null=True, help_text="null while the plan changes with every moment")
    maker = models.TextField(help_text="digest of the code and the secret key that made it")
    epoch = models.BigIntegerField()
    valid_until = models.DateTimeField()

    class Meta:
        db_table = "site_plan"

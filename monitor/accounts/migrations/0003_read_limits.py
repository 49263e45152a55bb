"""Limits of what users, roles and tokens may read."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_preferences"),
        ("mesh", "0011_slot_by_lead"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ReadLimit",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "role",
                    models.TextField(null=True, unique=True, help_text="as monitor.accounts.roles.Role"),
                ),
                ("groups", models.ManyToManyField(db_table="read_limit_groups", related_name="+", to="mesh.group")),
                ("sites", models.ManyToManyField(db_table="read_limit_sites", related_name="+", to="mesh.site")),
                (
                    "token",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="read_limit",
                        to="accounts.usertoken",
                    ),
                ),
                (
                    "user",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="read_limit",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={"db_table": "read_limit"},
        ),
        migrations.AddConstraint(
            model_name="readlimit",
            constraint=models.CheckConstraint(
                condition=models.Q(user__isnull=False, role=None, token=None)
                | models.Q(user=None, role__isnull=False, token=None)
                | models.Q(user=None, role=None, token__isnull=False),
                name="read_limit_of_one_reader",
            ),
        ),
    ]

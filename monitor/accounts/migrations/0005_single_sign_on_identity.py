"""Accounts of single sign-on, by issuer and subject."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0004_read_policies"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="SingleSignOnIdentity",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="single_sign_on",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("issuer", models.TextField()),
                ("subject", models.TextField(help_text="the claim sub, which the issuer never gives to another user")),
            ],
            options={"db_table": "single_sign_on_identity"},
        ),
        migrations.AddConstraint(
            model_name="singlesignonidentity",
            constraint=models.UniqueConstraint(fields=("issuer", "subject"), name="one_account_of_a_subject"),
        ),
    ]

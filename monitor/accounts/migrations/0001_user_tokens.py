"""Tokens of users for the API."""

from django.conf import settings
from django.db import migrations, models

ID = ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"))


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("accounts", "0001_initial"),
        ("accounts", "0002_no_admin_role"),
    ]

    dependencies = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.CreateModel(
            name="UserToken",
            fields=[
                ID,
                ("name", models.TextField(help_text="its purpose, as given by its owner")),
                ("digest", models.TextField(unique=True)),
                ("created_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(null=True)),
                (
                    "may_operate",
                    models.BooleanField(db_default=False, default=False, help_text="acknowledge, silence, comment"),
                ),
                (
                    "user",
                    models.ForeignKey(on_delete=models.CASCADE, related_name="tokens", to=settings.AUTH_USER_MODEL),
                ),
            ],
            options={"db_table": "user_token"},
        )
    ]

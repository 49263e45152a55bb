"""Links by which visitors read a page without a login; readers with limits see their own."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

# In a function, so that the policy does not depend on a column of Django's table, which Django may alter.
IS_READER = """
CREATE FUNCTION is_reader(bigint) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM public.auth_user WHERE id = $1 AND username = current_setting('soundings.user'))
$$
"""
POLICY = [
    IS_READER,
    "ALTER TABLE shared_link ENABLE ROW LEVEL SECURITY",
    "CREATE POLICY readable ON shared_link USING (is_reader(owner_id))",
]


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0005_single_sign_on_identity"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="SharedLink",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("digest", models.TextField(unique=True)),
                ("address", models.TextField(help_text="of the page, with its query")),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(null=True)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="shared_links",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={"db_table": "shared_link"},
        ),
        migrations.RunSQL(POLICY, ["DROP POLICY readable ON shared_link", "DROP FUNCTION is_reader(bigint)"]),
    ]

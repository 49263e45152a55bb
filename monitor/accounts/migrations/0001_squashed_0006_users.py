"""Tokens, preferences and accounts of users, links for visitors, and limits of what users and tokens may read."""

from django.conf import settings
from django.db import migrations, models

ID = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")

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

TABLES = [
    migrations.CreateModel(
        "UserToken",
        {
            "id": ID,
            "name": models.TextField(help_text="its purpose, as given by its owner"),
            "digest": models.TextField(unique=True),
            "created_at": models.DateTimeField(),
            "revoked_at": models.DateTimeField(null=True),
            "may_operate": models.BooleanField(
                db_default=False, default=False, help_text="acknowledge, silence, comment"
            ),
            "user": models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="tokens"),
        }.items(),
        {"db_table": "user_token"},
    ),
    migrations.CreateModel(
        "UserPreferences",
        {
            "user": models.OneToOneField(
                settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="preferences", serialize=False
            ),
            "theme": models.TextField(help_text="system, light or dark"),
            "time_zone": models.TextField(help_text="IANA name, as Europe/Zurich"),
        }.items(),
        {"db_table": "user_preferences"},
    ),
    migrations.CreateModel(
        "ReadLimit",
        {
            "id": ID,
            "role": models.TextField(help_text="as monitor.accounts.roles.Role", null=True, unique=True),
            "groups": models.ManyToManyField("mesh.group", db_table="read_limit_groups", related_name="+"),
            "sites": models.ManyToManyField("mesh.site", db_table="read_limit_sites", related_name="+"),
            "token": models.OneToOneField("accounts.usertoken", models.CASCADE, null=True, related_name="read_limit"),
            "user": models.OneToOneField(
                settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="read_limit"
            ),
        }.items(),
        {
            "db_table": "read_limit",
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(user__isnull=False, role=None, token=None)
                    | models.Q(user=None, role__isnull=False, token=None)
                    | models.Q(user=None, role=None, token__isnull=False),
                    name="read_limit_of_one_reader",
                )
            ],
        },
    ),
    migrations.CreateModel(
        "SingleSignOnIdentity",
        {
            "user": models.OneToOneField(
                settings.AUTH_USER_MODEL,
                models.CASCADE,
                primary_key=True,
                related_name="single_sign_on",
                serialize=False,
            ),
            "issuer": models.TextField(),
            "subject": models.TextField(help_text="the claim sub, which the issuer never gives to another user"),
        }.items(),
        {
            "db_table": "single_sign_on_identity",
            "constraints": [models.UniqueConstraint(fields=("issuer", "subject"), name="one_account_of_a_subject")],
        },
    ),
    migrations.CreateModel(
        "SharedLink",
        {
            "id": ID,
            "digest": models.TextField(unique=True),
            "address": models.TextField(help_text="of the page, with its query"),
            **dict.fromkeys(("created_at", "expires_at"), models.DateTimeField()),
            "revoked_at": models.DateTimeField(null=True),
            "owner": models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="shared_links"),
        }.items(),
        {"db_table": "shared_link"},
    ),
]


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("accounts", "0001_user_tokens"), ("accounts", "0002_preferences"), ("accounts", "0003_read_limits"),
        ("accounts", "0005_single_sign_on_identity"), ("accounts", "0006_shared_link"),
    ]  # fmt: skip

    dependencies = [("mesh", "0001_squashed_0014_tables"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [*TABLES, migrations.RunSQL(POLICY)]

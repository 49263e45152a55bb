from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mesh", "0005_measurement_pattern"),
    ]

    operations = [
        migrations.AddField(
            model_name="host",
            name="interface",
            field=models.TextField(help_text="Interface or VRF by which its pings leave.", null=True),
        ),
        migrations.AddField(
            model_name="host",
            name="namespace",
            field=models.TextField(help_text="Network namespace from which its pings are sent.", null=True),
        ),
        migrations.AddField(
            model_name="host",
            name="peers",
            field=models.JSONField(
                db_default=[], default=list, help_text="Other addresses for some sites: as PeerEntry of mesh.toml."
            ),
        ),
    ]

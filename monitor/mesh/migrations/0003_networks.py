from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mesh", "0002_on_demand_pings"),
    ]

    operations = [
        migrations.AddField(
            model_name="mesh",
            name="networks",
            field=models.JSONField(
                db_default={},
                default=dict,
                help_text="Name and AS number of own networks, by prefix: the [[network]] tables.",
            ),
        ),
    ]

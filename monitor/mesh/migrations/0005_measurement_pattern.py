from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mesh", "0004_on_demand_traces"),
    ]

    operations = [
        migrations.AddField(
            model_name="measurementperiod",
            name="pattern",
            field=models.TextField(db_default="burst", default="burst", help_text="of pings: burst or even"),
        ),
    ]

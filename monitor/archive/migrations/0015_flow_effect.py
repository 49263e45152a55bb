from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("archive", "0014_burst_source"),
    ]

    operations = [
        migrations.AddField(
            model_name="trace",
            name="flow_effect",
            field=models.JSONField(help_text="null for a trace of a single flow", null=True),
        ),
    ]

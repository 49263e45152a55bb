from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("alerts", "0003_incident_direction"),
    ]

    operations = [
        migrations.AddField(
            model_name="incident",
            name="title",
            field=models.TextField(
                blank=True,
                db_default="",
                default="",
                help_text="Title as of the last evaluation while it lasted, with figures of then and the peak; empty "
                "before.",
            ),
        ),
    ]

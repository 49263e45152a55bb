from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("alerts", "0006_worsened"),
    ]

    operations = [
        migrations.AddField(
            model_name="incident",
            name="ended_at",
            field=models.DateTimeField(
                help_text="The last bad burst of its paths, once it is resolved; null if no bursts tell.", null=True
            ),
        ),
        migrations.AlterField(
            model_name="incident",
            name="closed_at",
            field=models.DateTimeField(help_text="Time of resolution; null while it lasts.", null=True),
        ),
    ]

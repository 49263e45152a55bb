from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("alerts", "0015_told_cause")]

    operations = [
        migrations.AddField(
            model_name="incident",
            name="over_since",
            field=models.DateTimeField(help_text="Since when all its tracks are normal again; null before.", null=True),
        ),
        migrations.AlterField(
            model_name="incident",
            name="title",
            field=models.TextField(
                blank=True,
                db_default="",
                default="",
                help_text="Title as of the last evaluation, by its tracks, and after its end; empty before the first.",
            ),
        ),
    ]

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("api", "0005_holders_of_tokens")]

    operations = [
        migrations.AddField(
            model_name="agenthealth",
            name="drops_past",
            field=models.JSONField(
                db_default=[],
                default=list,
                help_text="of the last hour: [seconds since the epoch, packets its interfaces dropped]",
            ),
        ),
    ]

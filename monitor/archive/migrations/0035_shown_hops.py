"""What each flow itself showed of its route; null where it was not kept, and then all that is known of the route."""

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("archive", "0002_squashed_0034_reporting"),
    ]

    operations = [
        migrations.AddField(
            model_name="pathroute",
            name="learned_at",
            field=ArrayField(
                models.DateTimeField(null=True),
                help_text="first trace of the flow that showed each hop; null for periods from before 0035",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="pathroute",
            name="reached_at",
            field=models.DateTimeField(help_text="first trace of the flow that reached the destination", null=True),
        ),
    ]

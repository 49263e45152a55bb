from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("archive", "0016_host_inventory"),
    ]

    operations = [
        migrations.AddField(
            model_name="directionburst",
            name="peer_packets",
            field=models.IntegerField(
                help_text="of the far end, received by our own reflector since the cycle before; null if not known",
                null=True,
            ),
        ),
    ]

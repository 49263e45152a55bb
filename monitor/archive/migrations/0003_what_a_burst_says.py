from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("archive", "0002_hypertables"),
    ]

    operations = [
        migrations.AddField(
            model_name="burst",
            name="clock_source",
            field=models.TextField(null=True),
        ),
        migrations.AddField(
            model_name="burst",
            name="errors",
            field=models.JSONField(
                help_text="ICMP errors as probes.ping.spec.IcmpError; null where none came", null=True
            ),
        ),
        migrations.AddField(
            model_name="burst",
            name="late",
            field=models.SmallIntegerField(db_default=0, help_text="of the lost, those answered after the timeout"),
        ),
        migrations.AddField(
            model_name="burst",
            name="path_mtu_bytes",
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name="burst",
            name="rate_limited",
            field=models.BooleanField(help_text="the loss grows with our own rate; null where not known", null=True),
        ),
        migrations.AddField(
            model_name="burst",
            name="stamps_lost",
            field=models.SmallIntegerField(db_default=0),
        ),
        migrations.AddField(
            model_name="burst",
            name="ttl_changes",
            field=models.SmallIntegerField(db_default=0),
        ),
        migrations.AddField(
            model_name="burst",
            name="waited",
            field=models.SmallIntegerField(db_default=0, help_text="requests that found our send buffer full"),
        ),
    ]

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mesh", "0006_host_egress"),
    ]

    operations = [
        migrations.AddField(
            model_name="host",
            name="iperf3_ports",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.IntegerField(),
                help_text="First and last port of a public iperf3 server.",
                null=True,
                size=None,
            ),
        ),
    ]

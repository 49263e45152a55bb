"""Which agent holds a token, and when another one was refused. Columns that are null: nothing is rewritten."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("api", "0004_tokens_that_operate"),
    ]

    operations = [
        migrations.AddField(model_name="agenttoken", name="instance", field=models.TextField(null=True)),
        migrations.AddField(model_name="agenttoken", name="instance_start", field=models.BigIntegerField(null=True)),
        migrations.AddField(
            model_name="agenttoken",
            name="held_since",
            field=models.DateTimeField(null=True, help_text="since when that start has held it"),
        ),
        migrations.AddField(model_name="agenttoken", name="refused_at", field=models.DateTimeField(null=True)),
        migrations.AddField(
            model_name="agenttoken",
            name="refused_from",
            field=models.TextField(null=True, help_text="its address, as far as it is known"),
        ),
    ]

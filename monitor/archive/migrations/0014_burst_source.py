from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("archive", "0013_directions"),
    ]

    operations = [
        migrations.AddField(
            model_name="burst",
            name="source_address",
            field=models.GenericIPAddressField(help_text="local address of its requests", null=True),
        ),
    ]

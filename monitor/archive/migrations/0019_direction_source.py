from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("archive", "0018_direction_views"),
    ]

    operations = [
        migrations.AddField(
            model_name="directionburst",
            name="source_address",
            field=models.GenericIPAddressField(help_text="local address of its packets", null=True),
        ),
    ]

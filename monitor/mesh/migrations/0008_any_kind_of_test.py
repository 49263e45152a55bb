from django.db import migrations, models


class Migration(migrations.Migration):
    """State only: the registry in the code lists the kinds, so that a new kind needs no migration."""

    dependencies = [("mesh", "0007_whom_to_call")]

    operations = [
        migrations.AlterField(
            model_name="test",
            name="kind",
            field=models.TextField(help_text="Name of its kind in probes.kinds."),
        ),
    ]

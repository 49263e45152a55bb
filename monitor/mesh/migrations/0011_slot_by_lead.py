from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """An index of a large table: deliveries go on while it is built."""

    atomic = False
    dependencies = [("mesh", "0010_slot_lead")]

    operations = [
        migrations.RunSQL("SET lock_timeout = 0", "SET lock_timeout = 0"),
        AddIndexConcurrently(
            model_name="slot",
            index=models.Index(condition=models.Q(("lead__isnull", False)), fields=["lead"], name="slot_by_lead"),
        ),
    ]

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mesh", "0009_sweeps")]

    operations = [
        migrations.AddField(
            model_name="slot",
            name="lead",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                help_text="of an aggregate test's other members: the slot of its first, which has the reservations",
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="members",
                to="mesh.slot",
            ),
        ),
    ]

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mesh", "0013_former_names")]

    operations = [
        migrations.AddField(
            model_name="host",
            name="behind_nat",
            field=models.BooleanField(
                db_default=False, default=False, help_text="Whether no other host can reach it first, as in mesh.toml."
            ),
        ),
    ]

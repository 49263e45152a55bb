import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mesh", "0012_site_plan")]

    operations = [
        migrations.AddField(
            model_name="site",
            name="former_names",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.TextField(), db_default=[], default=list, help_text="Earlier names, as in mesh.toml."
            ),
        ),
    ]

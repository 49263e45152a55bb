from django.db import migrations


class Migration(migrations.Migration):
    """Read the rows of a large table."""

    dependencies = [("planted_migration", "0001_column")]

    operations = [migrations.RunSQL("UPDATE burst SET planted = 0 WHERE planted = -1")]

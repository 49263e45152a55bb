"""What 0010 has moved into columns goes."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("archive", "0010_transfers_in_columns")]

    operations = [migrations.RemoveField("throughputtest", "intervals")]

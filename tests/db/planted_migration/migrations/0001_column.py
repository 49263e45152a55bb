from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("archive", "0001_squashed_0034_tables")]

    operations = [migrations.RunSQL("ALTER TABLE burst ADD COLUMN planted integer")]

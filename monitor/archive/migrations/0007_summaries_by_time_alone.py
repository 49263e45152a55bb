"""Hours and days are found by time alone: the planner takes an index that begins with the size for scattered rows."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("archive", "0006_delivered_day")]

    operations = [
        migrations.RemoveIndex(model_name="bursthour", name="burst_hour_by_size_and_hour"),
        migrations.RemoveIndex(model_name="burstday", name="burst_day_by_size_and_day"),
        migrations.AddIndex(model_name="bursthour", index=models.Index(fields=["hour"], name="burst_hour_by_hour")),
        migrations.AddIndex(model_name="burstday", index=models.Index(fields=["day"], name="burst_day_by_day")),
    ]

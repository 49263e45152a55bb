import django.db.models.deletion
from django.db import migrations, models

from monitor.accounts import row_policies


class Migration(migrations.Migration):
    dependencies = [("reports", "0001_subscribers"), ("accounts", "0002_squashed_0006_read_policies")]

    operations = [
        migrations.CreateModel(
            name="WeeklyReport",
            fields=[
                ("week", models.TextField(primary_key=True, serialize=False)),
                ("written_at", models.DateTimeField()),
            ],
            options={"db_table": "weekly_report"},
        ),
        migrations.CreateModel(
            name="WeeklyReportFile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("suffix", models.TextField()),
                ("content", models.BinaryField()),
                (
                    "report",
                    models.ForeignKey(
                        db_column="week",
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="files",
                        to="reports.weeklyreport",
                    ),
                ),
            ],
            options={
                "db_table": "weekly_report_file",
                "constraints": [models.UniqueConstraint(fields=("report", "suffix"), name="weekly_report_once")],
            },
        ),
        # Of the whole mesh: readers with limits get reports of their own.
        row_policies.policies({"weekly_report_file": "false"}),
    ]

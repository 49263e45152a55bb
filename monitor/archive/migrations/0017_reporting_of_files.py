"""The schema `reporting` has disk-to-disk tests as well, each with what limited it."""

from django.db import migrations

VIEW = """
CREATE VIEW reporting.disk_to_disk_test AS
SELECT
    path_id, measured_at, test, outcome, tool, streams, file_bytes, moved_bytes, moving_s, syncing_s, disk_to_disk_bps,
    memory_to_memory_bps, read_bps, read_cached_ratio, write_bps, is_verified, verdict, sentence, detail
FROM disk_to_disk_test
"""


class Migration(migrations.Migration):
    dependencies = [("archive", "0016_no_figure_where_there_is_none")]

    operations = [migrations.RunSQL(VIEW, "DROP VIEW reporting.disk_to_disk_test")]

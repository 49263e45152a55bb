"""In the schema `reporting` too, a number that leaps ahead by more than a billion leaves nothing missing."""

from django.db import migrations

VIEW = """
CREATE OR REPLACE VIEW reporting.completeness AS
SELECT site.name AS site, gap.day, sum(gap.delivered)::bigint AS delivered, {missing}::bigint AS missing
FROM (
    SELECT
        site_id, day, upper(numbers) - lower(numbers) AS delivered,
        lower(numbers) - coalesce(
            max(upper(numbers)) OVER (
                PARTITION BY site_id, spool ORDER BY lower(numbers) ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            least(lower(numbers), 1)
        ) AS missing
    FROM (SELECT site_id, spool, day, unnest(sequences) AS numbers FROM delivered_day) AS stretch
) AS gap
INNER JOIN site ON site.id = gap.site_id
GROUP BY site.name, gap.day
"""
# The same bound as monitor.archive.queries.completeness.LARGEST_GAP.
WITHOUT_LEAPS = "coalesce(sum(gap.missing) FILTER (WHERE gap.missing BETWEEN 0 AND 1000000000), 0)"
WITH_LEAPS = "sum(greatest(gap.missing, 0))"


class Migration(migrations.Migration):
    dependencies = [("archive", "0017_reporting_of_files")]

    operations = [migrations.RunSQL(VIEW.format(missing=WITHOUT_LEAPS), VIEW.format(missing=WITH_LEAPS))]

"""Throughput tests that were there before 0007 keep their average as their figure; their intervals become columns."""

from django.db import migrations

AVERAGES = """
UPDATE throughput_test SET average_bps = throughput_bps WHERE throughput_bps IS NOT NULL AND average_bps IS NULL
"""

# A column is taken where every interval has it. Times count on from the omitted part, as they did.
COLUMNS = """
UPDATE throughput_test
SET transfer = jsonb_build_object('sent', (
    SELECT jsonb_strip_nulls(jsonb_build_object(
        'end_s', jsonb_agg(one -> 'end_s' ORDER BY place),
        'sent_bytes', jsonb_agg(one -> 'transferred_bytes' ORDER BY place),
        'retransmits', CASE WHEN count(one ->> 'retransmits') = count(*)
            THEN jsonb_agg(one -> 'retransmits' ORDER BY place) END,
        'cwnd_bytes', CASE WHEN count(one ->> 'cwnd_bytes') = count(*)
            THEN jsonb_agg(one -> 'cwnd_bytes' ORDER BY place) END,
        'rtt_ms', CASE WHEN count(one ->> 'rtt_ms') = count(*)
            THEN jsonb_agg(one -> 'rtt_ms' ORDER BY place) END
    ))
    FROM jsonb_array_elements(intervals) WITH ORDINALITY AS interval_of (one, place)
), 'omitted_s', (
    SELECT coalesce(max((one ->> 'end_s')::double precision), 0)
    FROM jsonb_array_elements(intervals) AS interval_of (one)
    WHERE (one ->> 'omitted')::boolean
))
WHERE jsonb_array_length(intervals) > 0
"""


class Migration(migrations.Migration):
    dependencies = [("archive", "0009_no_index_twice")]

    operations = [
        migrations.RunSQL(AVERAGES, migrations.RunSQL.noop),
        migrations.RunSQL(COLUMNS, migrations.RunSQL.noop),
    ]

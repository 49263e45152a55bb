"""Summaries by day, month and year beside those by hour, all of PingER's metrics in them, and views that pool.

Hours that have a summary are marked dirty. Those with raw bursts get the new columns, and all of them open their days.
"""

from django.db import migrations, models

import monitor.archive.fields

TIERS = ("hour", "day", "month", "year")
VIEWS = ("metrics_by", "sizes_pooled_by", "families_pooled_by")

# A sketch that would make a row wide is kept beside the table, so that what reads only counts stays fast.
NARROW = """
    ALTER TABLE burst_{tier}
        ALTER COLUMN rtt_sketch SET STORAGE EXTERNAL,
        ALTER COLUMN ipdv_sketch SET STORAGE EXTERNAL,
        SET (toast_tuple_target = 512)
"""

# Each summary with its metrics by the names of monitor.archive.queries.metrics.
METRICS = """
CREATE VIEW metrics_by_{tier} AS
SELECT
    path_id, packet_bytes, {tier},
    sent, received, loss_ratio, loss_max_ratio,
    CASE WHEN lost = 0 THEN least(3::double precision / nullif(sent, 0), 1) END AS loss_floor_ratio,
    rtt_min_ms, rtt_p25_ms, rtt_median_ms, rtt_p75_ms, rtt_p90_ms, rtt_p95_ms, rtt_max_ms, rtt_avg_ms,
    rtt_iqr_ms, ipdv_ms,
    losses_paired::double precision / nullif(losses_followed, 0) AS conditional_loss_ratio,
    losses_followed::double precision / nullif(losses_followed - losses_paired, 0) AS mean_loss_burst_packets,
    bursts_duplicated::double precision / nullif(bursts, 0) AS duplicates_ratio,
    bursts_reordered::double precision / nullif(bursts, 0) AS out_of_order_ratio,
    late::double precision / nullif(sent, 0) AS late_ratio,
    bursts_all_lost::double precision / nullif(bursts, 0) AS unreachability_ratio,
    bursts_none_lost::double precision / nullif(bursts, 0) AS zero_loss_ratio,
    sqrt((
        (1 - nullif(rate_avg_per_ms / nullif(rate_max_per_ms, 'Infinity'), 'NaN')) ^ 2
        + (1 - received_avg_ratio / nullif(received_max_ratio, 0)) ^ 2
    ) / 2) AS unpredictability_ratio,
    estimate_bps, estimate_is_floor,
    CASE WHEN r IS NOT NULL THEN greatest(1, 1 + 0.035 * r + 7e-6 * r * (r - 60) * (100 - r)) END AS mos,
    least((bursts + bursts_during_test)::double precision / nullif(bursts_planned, 0), 1) AS coverage_ratio
FROM (
    SELECT *, sent - received AS lost, (sent - received)::double precision / nullif(sent, 0) AS loss_ratio
    FROM burst_{tier}
) AS summary
CROSS JOIN LATERAL (SELECT rtt_avg_ms + 2 * ipdv_ms + 10 AS effective_ms) AS latency
CROSS JOIN LATERAL (
    SELECT CASE WHEN effective_ms IS NOT NULL THEN least(100, greatest(0, 93.2 - 250 * loss_ratio
        - CASE WHEN effective_ms < 160 THEN effective_ms / 40 ELSE (effective_ms - 120) / 10 END)) END AS r
) AS rating
"""

SUMS = """
    sum(bursts) AS bursts, sum(bursts_all_lost) AS bursts_all_lost, sum(bursts_none_lost) AS bursts_none_lost,
    sum(bursts_during_test) AS bursts_during_test, sum(bursts_not_measured) AS bursts_not_measured,
    sum(bursts_planned) AS bursts_planned, sum(sent) AS sent, sum(received) AS received, sum(late) AS late,
    sum(duplicates) AS duplicates, sum(reordered) AS reordered, sum(losses_followed) AS losses_followed,
    sum(losses_paired) AS losses_paired, max(loss_max_ratio) AS loss_max_ratio, min(rtt_min_ms) AS rtt_min_ms,
    max(rtt_max_ms) AS rtt_max_ms, sum(rtt_avg_ms * received) / nullif(sum(received), 0) AS rtt_avg_ms
"""

# All packet sizes of a path together: what can be added. Quantiles of two sizes together would say nothing.
SIZES_POOLED = """
CREATE VIEW sizes_pooled_by_{tier} AS
SELECT path_id, {tier}, {sums} FROM burst_{tier} GROUP BY path_id, {tier}
"""

# IPv4 and IPv6, and all hosts, between two sites together.
FAMILIES_POOLED = """
CREATE VIEW families_pooled_by_{tier} AS
SELECT
    source_host.site_id AS source_site_id, destination_host.site_id AS destination_site_id, packet_bytes, {tier},
    count(*) AS paths, {sums}
FROM burst_{tier}
INNER JOIN path ON path.id = burst_{tier}.path_id
INNER JOIN host AS source_host ON source_host.id = path.source_id
INNER JOIN host AS destination_host ON destination_host.id = path.destination_id
GROUP BY source_host.site_id, destination_host.site_id, packet_bytes, {tier}
"""

OPEN_ALL_HOURS = """
    INSERT INTO dirty_hour (path_id, hour, marked_at) SELECT DISTINCT path_id, hour, now() FROM burst_hour
    ON CONFLICT DO NOTHING
"""


def of_tiers(*texts):
    return [text.format(tier=tier, sums=SUMS.format()) for tier in TIERS for text in texts]


class Migration(migrations.Migration):
    dependencies = [
        ("mesh", "0002_periods_and_exclusive_slots"),
        ("archive", "0004_capacity_result"),
    ]

    operations = [
        migrations.CreateModel(
            name="BurstYear",
            fields=[
                ("path_id", models.IntegerField()),
                ("packet_bytes", models.IntegerField()),
                ("bursts", models.IntegerField(help_text="measured, own tests left out")),
                ("bursts_all_lost", models.IntegerField()),
                ("bursts_none_lost", models.IntegerField()),
                ("bursts_during_test", models.IntegerField()),
                ("bursts_not_measured", models.IntegerField()),
                (
                    "bursts_planned",
                    models.IntegerField(help_text="by the mesh, to the period's end; null without a plan", null=True),
                ),
                ("bursts_duplicated", models.IntegerField(db_default=0, help_text="with any duplicate")),
                ("bursts_reordered", models.IntegerField(db_default=0, help_text="with any reply out of order")),
                ("sent", models.IntegerField()),
                ("received", models.IntegerField()),
                ("late", models.IntegerField(db_default=0, help_text="of the lost, those answered after the timeout")),
                ("duplicates", models.IntegerField()),
                ("reordered", models.IntegerField()),
                (
                    "losses_followed",
                    models.IntegerField(db_default=0, help_text="losses with a packet after them in their burst"),
                ),
                (
                    "losses_paired",
                    models.IntegerField(db_default=0, help_text="of those, the ones with that packet lost too"),
                ),
                (
                    "loss_max_ratio",
                    monitor.archive.fields.RealField(
                        help_text="of an hour's bursts the worst, of anything longer its worst hour", null=True
                    ),
                ),
                ("rtt_min_ms", monitor.archive.fields.RealField(null=True)),
                ("rtt_p25_ms", monitor.archive.fields.RealField(null=True)),
                ("rtt_median_ms", monitor.archive.fields.RealField(null=True)),
                ("rtt_p75_ms", monitor.archive.fields.RealField(null=True)),
                ("rtt_p90_ms", monitor.archive.fields.RealField(null=True)),
                ("rtt_p95_ms", monitor.archive.fields.RealField(null=True)),
                ("rtt_max_ms", monitor.archive.fields.RealField(null=True)),
                ("rtt_avg_ms", models.FloatField(null=True)),
                ("rtt_iqr_ms", models.FloatField(help_text="mean of the bursts' inter-quartile ranges", null=True)),
                (
                    "ipdv_ms",
                    monitor.archive.fields.RealField(
                        help_text="inter-quartile range of the signed differences", null=True
                    ),
                ),
                (
                    "received_avg_ratio",
                    models.FloatField(help_text="mean of the bursts' received over sent", null=True),
                ),
                ("received_max_ratio", models.FloatField(null=True)),
                (
                    "rate_avg_per_ms",
                    models.FloatField(help_text="mean of 1 over the bursts' mean round trips", null=True),
                ),
                ("rate_max_per_ms", models.FloatField(null=True)),
                ("estimate_bps", models.FloatField(null=True)),
                ("estimate_is_floor", models.BooleanField(null=True)),
                ("rtt_sketch", models.BinaryField(help_text="as monitor.analysis.sketches, in ms", null=True)),
                ("ipdv_sketch", models.BinaryField(help_text="of the signed differences, in ms", null=True)),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "path_id", "packet_bytes", "year", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("year", models.DateTimeField()),
            ],
            options={
                "db_table": "burst_year",
            },
        ),
        migrations.CreateModel(
            name="DirtySummary",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tier", "path_id", "starts_at", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tier", models.TextField(help_text="day, month or year")),
                ("path_id", models.IntegerField()),
                ("starts_at", models.DateTimeField()),
                ("marked_at", models.DateTimeField()),
            ],
            options={
                "db_table": "dirty_summary",
            },
        ),
        migrations.CreateModel(
            name="ThroughputDay",
            fields=[
                ("path_id", models.IntegerField()),
                ("tests", models.IntegerField()),
                ("tests_measured", models.IntegerField()),
                ("slots_planned", models.IntegerField()),
                ("throughput_min_bps", models.FloatField(null=True)),
                ("throughput_median_bps", models.FloatField(null=True)),
                ("throughput_max_bps", models.FloatField(null=True)),
                ("throughput_avg_bps", models.FloatField(null=True)),
                (
                    "throughput_sketch",
                    models.BinaryField(help_text="as monitor.analysis.sketches, in bit/s", null=True),
                ),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "path_id", "day", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("day", models.DateTimeField()),
            ],
            options={
                "db_table": "throughput_day",
            },
        ),
        migrations.CreateModel(
            name="ThroughputHour",
            fields=[
                ("path_id", models.IntegerField()),
                ("tests", models.IntegerField()),
                ("tests_measured", models.IntegerField()),
                ("slots_planned", models.IntegerField()),
                ("throughput_min_bps", models.FloatField(null=True)),
                ("throughput_median_bps", models.FloatField(null=True)),
                ("throughput_max_bps", models.FloatField(null=True)),
                ("throughput_avg_bps", models.FloatField(null=True)),
                (
                    "throughput_sketch",
                    models.BinaryField(help_text="as monitor.analysis.sketches, in bit/s", null=True),
                ),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "path_id", "hour", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hour", models.DateTimeField()),
            ],
            options={
                "db_table": "throughput_hour",
            },
        ),
        migrations.CreateModel(
            name="ThroughputMonth",
            fields=[
                ("path_id", models.IntegerField()),
                ("tests", models.IntegerField()),
                ("tests_measured", models.IntegerField()),
                ("slots_planned", models.IntegerField()),
                ("throughput_min_bps", models.FloatField(null=True)),
                ("throughput_median_bps", models.FloatField(null=True)),
                ("throughput_max_bps", models.FloatField(null=True)),
                ("throughput_avg_bps", models.FloatField(null=True)),
                (
                    "throughput_sketch",
                    models.BinaryField(help_text="as monitor.analysis.sketches, in bit/s", null=True),
                ),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "path_id", "month", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("month", models.DateTimeField()),
            ],
            options={
                "db_table": "throughput_month",
            },
        ),
        migrations.CreateModel(
            name="ThroughputYear",
            fields=[
                ("path_id", models.IntegerField()),
                ("tests", models.IntegerField()),
                ("tests_measured", models.IntegerField()),
                ("slots_planned", models.IntegerField()),
                ("throughput_min_bps", models.FloatField(null=True)),
                ("throughput_median_bps", models.FloatField(null=True)),
                ("throughput_max_bps", models.FloatField(null=True)),
                ("throughput_avg_bps", models.FloatField(null=True)),
                (
                    "throughput_sketch",
                    models.BinaryField(help_text="as monitor.analysis.sketches, in bit/s", null=True),
                ),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "path_id", "year", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("year", models.DateTimeField()),
            ],
            options={
                "db_table": "throughput_year",
            },
        ),
        migrations.AddField(
            model_name="bursthour",
            name="bursts_duplicated",
            field=models.IntegerField(db_default=0, help_text="with any duplicate"),
        ),
        migrations.AddField(
            model_name="bursthour",
            name="bursts_planned",
            field=models.IntegerField(help_text="by the mesh, to the period's end; null without a plan", null=True),
        ),
        migrations.AddField(
            model_name="bursthour",
            name="bursts_reordered",
            field=models.IntegerField(db_default=0, help_text="with any reply out of order"),
        ),
        migrations.AddField(
            model_name="bursthour",
            name="ipdv_sketch",
            field=models.BinaryField(help_text="of the signed differences, in ms", null=True),
        ),
        migrations.AddField(
            model_name="bursthour",
            name="late",
            field=models.IntegerField(db_default=0, help_text="of the lost, those answered after the timeout"),
        ),
        migrations.AddField(
            model_name="bursthour",
            name="loss_max_ratio",
            field=monitor.archive.fields.RealField(
                help_text="of an hour's bursts the worst, of anything longer its worst hour", null=True
            ),
        ),
        migrations.AddField(
            model_name="bursthour",
            name="losses_followed",
            field=models.IntegerField(db_default=0, help_text="losses with a packet after them in their burst"),
        ),
        migrations.AddField(
            model_name="bursthour",
            name="losses_paired",
            field=models.IntegerField(db_default=0, help_text="of those, the ones with that packet lost too"),
        ),
        migrations.AddField(
            model_name="bursthour",
            name="rate_avg_per_ms",
            field=models.FloatField(help_text="mean of 1 over the bursts' mean round trips", null=True),
        ),
        migrations.AddField(
            model_name="bursthour",
            name="rate_max_per_ms",
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name="bursthour",
            name="received_avg_ratio",
            field=models.FloatField(help_text="mean of the bursts' received over sent", null=True),
        ),
        migrations.AddField(
            model_name="bursthour",
            name="received_max_ratio",
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name="bursthour",
            name="rtt_iqr_ms",
            field=models.FloatField(help_text="mean of the bursts' inter-quartile ranges", null=True),
        ),
        migrations.AddField(
            model_name="bursthour",
            name="rtt_p90_ms",
            field=monitor.archive.fields.RealField(null=True),
        ),
        migrations.AddField(
            model_name="bursthour",
            name="rtt_sketch",
            field=models.BinaryField(help_text="as monitor.analysis.sketches, in ms", null=True),
        ),
        migrations.AlterField(
            model_name="bursthour",
            name="rtt_avg_ms",
            field=models.FloatField(null=True),
        ),
        migrations.CreateModel(
            name="BurstDay",
            fields=[
                ("path_id", models.IntegerField()),
                ("packet_bytes", models.IntegerField()),
                ("bursts", models.IntegerField(help_text="measured, own tests left out")),
                ("bursts_all_lost", models.IntegerField()),
                ("bursts_none_lost", models.IntegerField()),
                ("bursts_during_test", models.IntegerField()),
                ("bursts_not_measured", models.IntegerField()),
                (
                    "bursts_planned",
                    models.IntegerField(help_text="by the mesh, to the period's end; null without a plan", null=True),
                ),
                ("bursts_duplicated", models.IntegerField(db_default=0, help_text="with any duplicate")),
                ("bursts_reordered", models.IntegerField(db_default=0, help_text="with any reply out of order")),
                ("sent", models.IntegerField()),
                ("received", models.IntegerField()),
                ("late", models.IntegerField(db_default=0, help_text="of the lost, those answered after the timeout")),
                ("duplicates", models.IntegerField()),
                ("reordered", models.IntegerField()),
                (
                    "losses_followed",
                    models.IntegerField(db_default=0, help_text="losses with a packet after them in their burst"),
                ),
                (
                    "losses_paired",
                    models.IntegerField(db_default=0, help_text="of those, the ones with that packet lost too"),
                ),
                (
                    "loss_max_ratio",
                    monitor.archive.fields.RealField(
                        help_text="of an hour's bursts the worst, of anything longer its worst hour", null=True
                    ),
                ),
                ("rtt_min_ms", monitor.archive.fields.RealField(null=True)),
                ("rtt_p25_ms", monitor.archive.fields.RealField(null=True)),
                ("rtt_median_ms", monitor.archive.fields.RealField(null=True)),
                ("rtt_p75_ms", monitor.archive.fields.RealField(null=True)),
                ("rtt_p90_ms", monitor.archive.fields.RealField(null=True)),
                ("rtt_p95_ms", monitor.archive.fields.RealField(null=True)),
                ("rtt_max_ms", monitor.archive.fields.RealField(null=True)),
                ("rtt_avg_ms", models.FloatField(null=True)),
                ("rtt_iqr_ms", models.FloatField(help_text="mean of the bursts' inter-quartile ranges", null=True)),
                (
                    "ipdv_ms",
                    monitor.archive.fields.RealField(
                        help_text="inter-quartile range of the signed differences", null=True
                    ),
                ),
                (
                    "received_avg_ratio",
                    models.FloatField(help_text="mean of the bursts' received over sent", null=True),
                ),
                ("received_max_ratio", models.FloatField(null=True)),
                (
                    "rate_avg_per_ms",
                    models.FloatField(help_text="mean of 1 over the bursts' mean round trips", null=True),
                ),
                ("rate_max_per_ms", models.FloatField(null=True)),
                ("estimate_bps", models.FloatField(null=True)),
                ("estimate_is_floor", models.BooleanField(null=True)),
                ("rtt_sketch", models.BinaryField(help_text="as monitor.analysis.sketches, in ms", null=True)),
                ("ipdv_sketch", models.BinaryField(help_text="of the signed differences, in ms", null=True)),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "path_id", "packet_bytes", "day", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("day", models.DateTimeField()),
            ],
            options={
                "db_table": "burst_day",
                "indexes": [models.Index(fields=["day"], name="burst_day_by_day")],
            },
        ),
        migrations.CreateModel(
            name="BurstMonth",
            fields=[
                ("path_id", models.IntegerField()),
                ("packet_bytes", models.IntegerField()),
                ("bursts", models.IntegerField(help_text="measured, own tests left out")),
                ("bursts_all_lost", models.IntegerField()),
                ("bursts_none_lost", models.IntegerField()),
                ("bursts_during_test", models.IntegerField()),
                ("bursts_not_measured", models.IntegerField()),
                (
                    "bursts_planned",
                    models.IntegerField(help_text="by the mesh, to the period's end; null without a plan", null=True),
                ),
                ("bursts_duplicated", models.IntegerField(db_default=0, help_text="with any duplicate")),
                ("bursts_reordered", models.IntegerField(db_default=0, help_text="with any reply out of order")),
                ("sent", models.IntegerField()),
                ("received", models.IntegerField()),
                ("late", models.IntegerField(db_default=0, help_text="of the lost, those answered after the timeout")),
                ("duplicates", models.IntegerField()),
                ("reordered", models.IntegerField()),
                (
                    "losses_followed",
                    models.IntegerField(db_default=0, help_text="losses with a packet after them in their burst"),
                ),
                (
                    "losses_paired",
                    models.IntegerField(db_default=0, help_text="of those, the ones with that packet lost too"),
                ),
                (
                    "loss_max_ratio",
                    monitor.archive.fields.RealField(
                        help_text="of an hour's bursts the worst, of anything longer its worst hour", null=True
                    ),
                ),
                ("rtt_min_ms", monitor.archive.fields.RealField(null=True)),
                ("rtt_p25_ms", monitor.archive.fields.RealField(null=True)),
                ("rtt_median_ms", monitor.archive.fields.RealField(null=True)),
                ("rtt_p75_ms", monitor.archive.fields.RealField(null=True)),
                ("rtt_p90_ms", monitor.archive.fields.RealField(null=True)),
                ("rtt_p95_ms", monitor.archive.fields.RealField(null=True)),
                ("rtt_max_ms", monitor.archive.fields.RealField(null=True)),
                ("rtt_avg_ms", models.FloatField(null=True)),
                ("rtt_iqr_ms", models.FloatField(help_text="mean of the bursts' inter-quartile ranges", null=True)),
                (
                    "ipdv_ms",
                    monitor.archive.fields.RealField(
                        help_text="inter-quartile range of the signed differences", null=True
                    ),
                ),
                (
                    "received_avg_ratio",
                    models.FloatField(help_text="mean of the bursts' received over sent", null=True),
                ),
                ("received_max_ratio", models.FloatField(null=True)),
                (
                    "rate_avg_per_ms",
                    models.FloatField(help_text="mean of 1 over the bursts' mean round trips", null=True),
                ),
                ("rate_max_per_ms", models.FloatField(null=True)),
                ("estimate_bps", models.FloatField(null=True)),
                ("estimate_is_floor", models.BooleanField(null=True)),
                ("rtt_sketch", models.BinaryField(help_text="as monitor.analysis.sketches, in ms", null=True)),
                ("ipdv_sketch", models.BinaryField(help_text="of the signed differences, in ms", null=True)),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "path_id",
                        "packet_bytes",
                        "month",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("month", models.DateTimeField()),
            ],
            options={
                "db_table": "burst_month",
                "indexes": [models.Index(fields=["packet_bytes", "month"], name="burst_month_by_size_and_month")],
            },
        ),
        migrations.RunSQL(of_tiers(NARROW), migrations.RunSQL.noop),
        migrations.RunSQL(
            of_tiers(METRICS, SIZES_POOLED, FAMILIES_POOLED),
            [f"DROP VIEW {view}_{tier}" for tier in TIERS for view in VIEWS],
        ),
        migrations.RunSQL(OPEN_ALL_HOURS, migrations.RunSQL.noop),
    ]

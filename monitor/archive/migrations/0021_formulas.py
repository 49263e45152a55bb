"""The 3/N bound of the loss, the Mathis rate and MOS as SQL functions, for our queries and for Grafana.

`monitor.analysis` has the same formulas; tests/db/archive/test_formulas.py compares them. All are NULL where undefined.
The planner inlines them: a function of a single expression that is not STRICT, with cheap arguments where a parameter
occurs more than once. A call that is not inlined takes microseconds for each row.
"""

from importlib import import_module

from django.db import migrations

SUMMARIES = import_module("monitor.archive.migrations.0005_summaries_of_all_tiers")
VIEWS_BEFORE = import_module("monitor.archive.migrations.0016_no_figure_where_there_is_none")

EFFECTIVE_LATENCY_MS = "(rtt_avg_ms + 2 * ipdv_ms + 10)"
# The E-model has L/40 below 160 ms and (L - 120)/10 from there on: always the greater of the two.
R = (
    "least(100, greatest(0, 93.2 - 250 * loss_ratio"
    f" - greatest({EFFECTIVE_LATENCY_MS} / 40, ({EFFECTIVE_LATENCY_MS} - 120) / 10)))"
)
COUNTS = "sent double precision, received double precision"

FUNCTIONS = {
    # Upper 95% bound of the loss where none of `sent` packets was lost ("rule of three"), at most 1.
    "loss_bound_ratio(sent double precision)": "CASE WHEN sent > 0 THEN least(3 / sent, 1) END",
    # Mathis et al. (1997) as in PingER's tables: one stream of Reno, segments of 1460 bytes, C = 1.
    "mathis_bps(rtt_ms double precision, loss_ratio double precision)": (
        "1460 * 8 / (nullif(greatest(rtt_ms, 0), 0) / 1000 * sqrt(nullif(greatest(loss_ratio, 0), 0)))"
    ),
    # The same of counts. With none lost it is a floor, at the bound of the loss.
    f"mathis_estimate_bps(rtt_avg_ms double precision, {COUNTS})": (
        "reporting.mathis_bps(rtt_avg_ms, CASE WHEN received < sent THEN (sent - received) / sent"
        " WHEN received >= sent THEN reporting.loss_bound_ratio(sent) END)"
    ),
    # Whether that is a floor.
    f"mathis_estimate_is_floor(rtt_avg_ms double precision, {COUNTS})": (
        "CASE WHEN rtt_avg_ms > 0 AND sent > 0 THEN received >= sent END"
    ),
    # Mean opinion score, 1 to 4.5: PingER's short form of the E-model, and ITU-T G.107, Annex B.
    "mos(rtt_avg_ms double precision, ipdv_ms double precision, loss_ratio double precision)": (
        "CASE WHEN rtt_avg_ms + ipdv_ms + loss_ratio IS NOT NULL"
        f" THEN greatest(1, 1 + 0.035 * {R} + 7e-6 * {R} * ({R} - 60) * (100 - {R})) END"
    ),
}


def returned(name):
    return "boolean" if "_is_" in name else "double precision"


CREATE = [
    f"CREATE FUNCTION reporting.{name} RETURNS {returned(name)} LANGUAGE sql IMMUTABLE PARALLEL SAFE"
    f" AS $$ SELECT {expression} $$"
    for name, expression in FUNCTIONS.items()
]
DROP = [f"DROP FUNCTION reporting.{name}" for name in reversed(FUNCTIONS)]

# Each summary with its metrics by the names of monitor.archive.queries.metrics.
METRICS = """
CREATE OR REPLACE VIEW metrics_by_{tier} AS
SELECT
    path_id, packet_bytes, {tier},
    sent, received, (sent - received)::double precision / nullif(sent, 0) AS loss_ratio, loss_max_ratio,
    CASE WHEN received = sent THEN reporting.loss_bound_ratio(sent) END AS loss_floor_ratio,
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
    reporting.mos(rtt_avg_ms, ipdv_ms, (sent - received)::double precision / nullif(sent, 0)) AS mos,
    CASE WHEN bursts_planned > 0
        THEN least((bursts + bursts_during_test)::double precision / bursts_planned, 1) END AS coverage_ratio
FROM burst_{tier}
"""


class Migration(migrations.Migration):
    dependencies = [("archive", "0020_last_run")]

    operations = [
        migrations.RunSQL(CREATE, DROP),
        migrations.RunSQL(
            [METRICS.format(tier=tier) for tier in SUMMARIES.TIERS], VIEWS_BEFORE.views(VIEWS_BEFORE.RIGHT)
        ),
    ]

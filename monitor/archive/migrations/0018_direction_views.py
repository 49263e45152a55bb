"""Loss and delay by direction for Grafana, in the schema `reporting`: single STAMP cycles, and their summaries."""

from importlib import import_module

from django.db import migrations

TIERS = import_module("monitor.archive.migrations.0002_reporting")


def delay(name, direction, sign, error):
    """An end of the interval of a delay, never below 0; null without timestamps of the reflector."""
    raw = f"{direction}_{name}_ms {sign} offset_{error}_ms"
    return f"CASE WHEN {raw} IS NOT NULL THEN greatest(0, {raw}) END"


def delays(name):
    return f"""
            {delay(name, "forward", "-", "hi")} AS forward_delay_lo_ms,
            {delay(name, "forward", "-", "lo")} AS forward_delay_hi_ms,
            {delay(name, "reverse", "+", "lo")} AS reverse_delay_lo_ms,
            {delay(name, "reverse", "+", "hi")} AS reverse_delay_hi_ms
    """


VIEWS = {
    # Loss is null where the reflector keeps no counter, and of the way back where nothing came there.
    "direction_cycle": f"""
        SELECT
            path_id, measured_at, test, packet_bytes, outcome, during_test, sent, received, undecided, forward_lost,
            reverse_lost, forward_lost::double precision / nullif(sent - undecided, 0) AS forward_loss_ratio,
            reverse_lost::double precision / nullif(sent - undecided - forward_lost, 0) AS reverse_loss_ratio,
            forward_duplicates, reverse_duplicates, forward_reordered, reverse_reordered,
            forward_p95_ms - forward_min_ms AS forward_variation_ms,
            reverse_p95_ms - reverse_min_ms AS reverse_variation_ms,
            {delays("median")}
        FROM direction_burst
    """,
    "direction": TIERS.union_of_tiers(f"""
        SELECT
            '{{tier}}' AS tier, {{tier}} AS at, path_id, bursts, bursts_counted, bursts_delayed, sent, received,
            counted, forward_lost, reverse_lost,
            forward_lost::double precision / nullif(counted, 0) AS forward_loss_ratio,
            reverse_lost::double precision / nullif(counted - forward_lost, 0) AS reverse_loss_ratio,
            forward_duplicates, reverse_duplicates, forward_reordered, reverse_reordered,
            forward_variation_ms, reverse_variation_ms,
            {delays("avg")}
        FROM direction_{{tier}}
    """),
}

CREATE = [f"CREATE VIEW reporting.{name} AS {text}" for name, text in VIEWS.items()]
DROP = [f"DROP VIEW reporting.{name}" for name in VIEWS]


class Migration(migrations.Migration):
    dependencies = [("archive", "0017_peer_packets")]

    operations = [migrations.RunSQL(CREATE, DROP)]

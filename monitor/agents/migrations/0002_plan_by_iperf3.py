"""A slot has the version of iperf3 at its other end: where an agent reports another, its peers get new plans."""

from django.db import migrations

CREATE = [
    """
    CREATE FUNCTION note_iperf3_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM mark_plans(ARRAY(
            SELECT unnest(ARRAY[source.site_id, destination.site_id])
            FROM slot
            INNER JOIN measurement ON measurement.id = slot.measurement_id
            INNER JOIN path ON path.id = measurement.path_id
            INNER JOIN host AS source ON source.id = path.source_id
            INNER JOIN host AS destination ON destination.id = path.destination_id
            WHERE slot.outcome IS NULL
                AND coalesce(NEW.site_id, OLD.site_id) IN (source.site_id, destination.site_id)
        ));
        RETURN NULL;
    END $$
    """,
    "CREATE TRIGGER iperf3_changed AFTER UPDATE OF health ON agent_health FOR EACH ROW "
    "WHEN (OLD.health ->> 'iperf3' IS DISTINCT FROM NEW.health ->> 'iperf3') EXECUTE FUNCTION note_iperf3_change()",
    "CREATE TRIGGER iperf3_told AFTER INSERT ON agent_health FOR EACH ROW "
    "WHEN (NEW.health ->> 'iperf3' IS NOT NULL) EXECUTE FUNCTION note_iperf3_change()",
    "CREATE TRIGGER iperf3_forgotten AFTER DELETE ON agent_health FOR EACH ROW "
    "WHEN (OLD.health ->> 'iperf3' IS NOT NULL) EXECUTE FUNCTION note_iperf3_change()",
]
DROP = "DROP FUNCTION note_iperf3_change CASCADE"


class Migration(migrations.Migration):
    dependencies = [("agents", "0001_initial"), ("mesh", "0002_squashed_0014_plans")]

    operations = [migrations.RunSQL(CREATE, DROP)]

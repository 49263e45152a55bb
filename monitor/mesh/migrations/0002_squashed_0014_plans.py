"""Stored versions of plans, and the triggers that note every change of what plans are made of.

A change of a mesh table raises `plan_epoch.epoch`: every plan is built again. A change of slots or a request concerns
few sites: it leaves a mark for each in `plan_change`, in the transaction of the change, so that nobody sees one
without the other. Marks of two transactions are different rows, so deliveries do not wait for each other here. A site
that has a mark gets no other: the mark is locked, so that the builder of its plan takes it away after this change,
and one that it is taking away already does not count. ON CONFLICT locks the mark instead of passing it over, because
a restored database may have marks of an equal number.
"""

from django.db import migrations, models

MESH_TABLES = ("site", "host", "path", "test", "measurement")
SLOT_COLUMNS = ("measurement_id", "starts_at", "ends_at", "outcome")
SLOT_HOST_AHEAD = "30 minutes"
"""Reservations further ahead enter plans with a later window (`monitor.mesh.schedule.destination_tests`), and a plan is
not valid beyond its window."""
LONG_OVER = "1 day"

RAISE = """
CREATE FUNCTION raise_plan_epoch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO plan_epoch (id, epoch) VALUES (1, extract(epoch FROM clock_timestamp()) * 1000000)
    ON CONFLICT (id) DO UPDATE SET epoch = greatest(plan_epoch.epoch + 1, excluded.epoch);
    RETURN NULL;
END $$
"""
RAISE_SLOTS = """
CREATE FUNCTION raise_slots_epoch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO plan_epoch (id, slots_epoch) VALUES (1, extract(epoch FROM clock_timestamp()) * 1000000)
    ON CONFLICT (id) DO UPDATE SET slots_epoch = greatest(plan_epoch.slots_epoch + 1, excluded.slots_epoch);
    RETURN NULL;
END $$
"""
MARK = """
CREATE FUNCTION mark_plans(site_ids bigint[]) RETURNS void LANGUAGE sql AS $$
    WITH wanted AS (SELECT DISTINCT site_id FROM unnest(site_ids) AS site_id),
    marked AS (
        SELECT plan_change.site_id FROM plan_change
        INNER JOIN wanted ON wanted.site_id = plan_change.site_id
        FOR SHARE OF plan_change SKIP LOCKED
    )
    INSERT INTO plan_change (site_id, xact)
    SELECT site_id, pg_current_xact_id()::text::bigint FROM wanted WHERE site_id NOT IN (SELECT site_id FROM marked)
    ON CONFLICT (site_id, xact) DO UPDATE SET xact = excluded.xact WHERE FALSE
$$
"""
ENDS_OF_SLOTS = """
    SELECT host.site_id FROM measurement
    INNER JOIN path ON path.id = measurement.path_id
    INNER JOIN host ON host.id IN (path.source_id, path.destination_id)
"""
# By the rights of the owner: a change by an operator who reads some sites only concerns plans of others too.
NOTE = (
    "CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp "
    "AS $$ BEGIN {text} RETURN NULL; END $$"
)
FUNCTIONS = {
    "note_slot_change": f"""
        PERFORM mark_plans(ARRAY({ENDS_OF_SLOTS} WHERE measurement.id IN (OLD.measurement_id, NEW.measurement_id)));
    """,
    "note_slot_request_change": f"""
        PERFORM mark_plans(ARRAY({ENDS_OF_SLOTS} WHERE measurement.id IN (
            SELECT slot.measurement_id FROM slot WHERE slot.id IN (OLD.slot_id, NEW.slot_id)
        )));
    """,
    "note_slot_host_change": f"""
        IF coalesce(NEW.starts_at, OLD.starts_at) < clock_timestamp() + interval '{SLOT_HOST_AHEAD}'
            AND (TG_OP <> 'DELETE' OR OLD.ends_at > clock_timestamp() - interval '{LONG_OVER}')
            OR TG_OP = 'UPDATE'
        THEN
            PERFORM mark_plans(ARRAY(
                SELECT host.site_id FROM host WHERE host.id IN (OLD.host_id, NEW.host_id)
                UNION
                SELECT source.site_id
                FROM host AS loaded
                INNER JOIN host AS destination
                    ON destination.site_id = loaded.site_id
                    AND destination.uplink_id IS NOT DISTINCT FROM loaded.uplink_id
                INNER JOIN path ON path.destination_id = destination.id
                INNER JOIN host AS source ON source.id = path.source_id
                WHERE loaded.id IN (OLD.host_id, NEW.host_id)
            ));
        END IF;
    """,
    "note_request": """
        PERFORM mark_plans(ARRAY(
            SELECT host.site_id FROM path INNER JOIN host ON host.id = path.source_id WHERE path.id = NEW.path_id
        ));
    """,
}
EVENTS = {
    "slot_added": ("AFTER INSERT ON slot", "NEW.outcome IS NULL", "note_slot_change"),
    "slot_deleted": ("AFTER DELETE ON slot", "OLD.outcome IS NULL", "note_slot_change"),
    "slot_changed": (
        f"AFTER UPDATE OF {', '.join(SLOT_COLUMNS)} ON slot",
        " OR ".join(f"OLD.{column} IS DISTINCT FROM NEW.{column}" for column in SLOT_COLUMNS),
        "note_slot_change",
    ),
    "slot_request_changed": ("AFTER INSERT OR UPDATE OR DELETE ON slot_request", "TRUE", "note_slot_request_change"),
    "slot_host_changed": ("AFTER INSERT OR UPDATE OR DELETE ON slot_host", "TRUE", "note_slot_host_change"),
    "pings_requested": ("AFTER INSERT ON ping_run", "TRUE", "note_request"),
    "traces_requested": ("AFTER INSERT ON trace_request", "TRUE", "note_request"),
}
CREATE = [
    RAISE,
    RAISE_SLOTS,
    MARK,
    *(NOTE.format(name=name, text=text) for name, text in FUNCTIONS.items()),
    *(
        f"CREATE TRIGGER raises_plan_epoch AFTER INSERT OR UPDATE OR DELETE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION raise_plan_epoch()"
        for table in MESH_TABLES
    ),
    "CREATE TRIGGER raises_plan_epoch AFTER INSERT OR DELETE OR UPDATE OF name ON mesh "
    "FOR EACH STATEMENT EXECUTE FUNCTION raise_plan_epoch()",
    "CREATE TRIGGER raises_slots_epoch AFTER INSERT OR UPDATE OR DELETE ON slot_host "
    "FOR EACH STATEMENT EXECUTE FUNCTION raise_slots_epoch()",
    *(
        f"CREATE TRIGGER {name} {event} FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION {function}()"
        for name, (event, condition, function) in EVENTS.items()
    ),
    "INSERT INTO plan_epoch (id, epoch, slots_epoch) VALUES (1, 1, 0)",
]


def key(*columns):
    """The primary key of these columns."""
    return models.CompositePrimaryKey(*columns, blank=True, editable=False, primary_key=True, serialize=False)


TABLES = [
    migrations.CreateModel(
        "PlanEpoch",
        {
            "id": models.SmallIntegerField(default=1, primary_key=True, serialize=False),
            "epoch": models.BigIntegerField(
                db_default=0, help_text="grows with each change of sites, hosts, paths and tests"
            ),
            "slots_epoch": models.BigIntegerField(db_default=0, help_text="grows with each change of slot_host"),
        }.items(),
        {
            "db_table": "plan_epoch",
            "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="only_one_plan_epoch")],
        },
    ),
    migrations.CreateModel(
        "SitePlanChange",
        {
            "pk": key("site_id", "xact"),
            "site_id": models.BigIntegerField(),
            "xact": models.BigIntegerField(help_text="the transaction: two of them never wait for each other here"),
        }.items(),
        {"db_table": "plan_change"},
    ),
    migrations.CreateModel(
        "SitePlan",
        {
            "site": models.OneToOneField(
                "mesh.site", models.CASCADE, primary_key=True, related_name="+", serialize=False
            ),
            "version": models.TextField(help_text="null while the plan changes with every moment", null=True),
            "maker": models.TextField(help_text="digest of the code and the secret key that made it"),
            "epoch": models.BigIntegerField(),
            "valid_until": models.DateTimeField(),
        }.items(),
        {"db_table": "site_plan"},
    ),
]


class Migration(migrations.Migration):
    replaces = [("mesh", "0012_site_plan")]

    dependencies = [("mesh", "0001_squashed_0014_tables")]

    operations = [*TABLES, migrations.RunSQL(CREATE)]

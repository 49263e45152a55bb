"""Row-level security for readers with limits (`monitor.accounts.read_limits`).

`soundings.sites` has the ids of the sites that may be read, `soundings.user` the reader's name. A host is readable with
its site, a path if both of its ends are, an incident if all of its paths are, since its sentences name them together;
rows of them likewise. The tables' owner is exempt, so that nothing else becomes slower or changes. The hypertables have
no policy, which compressed chunks do not permit: `monitor.accounts.limited_role` has views of them.
"""

from django.db import migrations

from monitor.accounts.row_policies import PATHS, SITES, by_host, by_path, by_site, policies

QUIET_OR_ANNOTATION = f"(path_id IS NULL OR path_id IN ({PATHS})) AND (site_id IS NULL OR site_id IN ({SITES}))"

BY_SITE = (
    "host", "uplink", "site_group_sites", "agent_token", "enrolment_code", "agent_health", "clock_off_period",
    "received_batch", "refused_result", "agent_gap", "agent_account", "delivered_day", "site_plan", "plan_change",
)  # fmt: skip
BY_PATH = (
    "measurement", "ping_request", "ping_run", "trace_request", "aggregate_member", "cycle_day", "direction_hour",
    "direction_day", "direction_month", "direction_year", "throughput_capture", "undiagnosed_test", "disk_to_disk_test",
    "policer_result", "request_response", "route", "path_route", "burst_day", "burst_month", "burst_year",
    "throughput_hour", "throughput_day", "throughput_month", "throughput_year", "dirty_hour", "dirty_summary",
    "throughput_sweep", "judged_path", "judged_delays", "idle_restart", "interface_week",
)  # fmt: skip
BY_INCIDENT = ("incident_path", "incident_evidence", "incident_turn", "notification")

READABLE = {
    "site": f"id IN ({SITES})",
    "path": "source_id IN (SELECT id FROM host) AND destination_id IN (SELECT id FROM host)",
    "site_group": "group_is_readable(id)",
    "measurement_period": "measurement_id IN (SELECT id FROM measurement)",
    "slot": "measurement_id IN (SELECT id FROM measurement)",
    "slot_request": "slot_id IN (SELECT id FROM slot)",
    "slot_uplink": "uplink_id IN (SELECT id FROM uplink)",
    "throughput_sweep_cell": "sweep_id IN (SELECT id FROM throughput_sweep)",
    "aggregate_run": f"""NOT EXISTS (
        SELECT FROM jsonb_array_elements_text(path_ids) AS member WHERE member::bigint NOT IN ({PATHS})
    )""",
    "incident": "incident_is_readable(id)",
    **dict.fromkeys(BY_INCIDENT, "incident_is_readable(incident_id)"),
    "quiet": f"{QUIET_OR_ANNOTATION} AND (group_id IS NULL OR group_is_readable(group_id))",
    "annotation": QUIET_OR_ANNOTATION,
    "deed": """
        who = current_setting('soundings.user') OR incident_is_readable(incident_id)
        OR quiet_id IN (SELECT id FROM quiet)
    """,
    "report_subscriber": "false",
    "report_delivery": "false",
}

# They count rows that the reader may not see.
FUNCTIONS = {
    "incident_is_readable": f"""
        SELECT count(*) > 0 AND bool_and(source.site_id IN ({SITES}) AND destination.site_id IN ({SITES}))
        FROM public.incident_path
        JOIN public.path ON path.id = incident_path.path_id
        JOIN public.host AS source ON source.id = path.source_id
        JOIN public.host AS destination ON destination.id = path.destination_id
        WHERE incident_path.incident_id = $1
    """,
    "group_is_readable": f"""
        SELECT count(*) > 0 AND bool_and(site_id IN ({SITES})) FROM public.site_group_sites WHERE group_id = $1
    """,
}
CREATE_FUNCTIONS = [
    f"CREATE FUNCTION {name}(bigint) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER"
    f" SET search_path = pg_catalog, pg_temp AS $${body}$$"
    for name, body in FUNCTIONS.items()
]


class Migration(migrations.Migration):
    replaces = [("accounts", "0004_read_policies")]

    dependencies = [
        ("accounts", "0001_squashed_0006_users"),
        ("mesh", "0002_squashed_0014_plans"),
        ("archive", "0001_squashed_0034_tables"),
        ("agents", "0001_initial"),
        ("alerts", "0001_squashed_0017_incidents"),
        ("reports", "0001_subscribers"),
    ]

    operations = [
        migrations.RunSQL(CREATE_FUNCTIONS),
        by_site(*BY_SITE),
        by_path(*BY_PATH),
        by_host("slot_host"),
        policies(READABLE),
    ]

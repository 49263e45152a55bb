from django.db import migrations, models

TROUBLE = """
    CASE times.level ->> 'unit'
        WHEN 'loss_ratio' THEN jsonb_build_array(1, begun_s, NULL, begun_s, 1000, round(1000 * peak), 1)
        WHEN 'ms' THEN jsonb_build_array(1, begun_s, NULL, begun_s, peak, peak, peak, peak)
        ELSE jsonb_build_array(1, begun_s, NULL, begun_s, peak, peak)
    END
"""
OUTAGE = """
    CASE WHEN silent_s IS NOT NULL
        THEN jsonb_build_array(jsonb_build_array(2, silent_s, silent_s, silent_s, 1000, 1000, 1)) ELSE '[]'
    END
"""
CLEAN = """
    CASE WHEN coalesce(replied_s, over_s) IS NULL THEN '[]' ELSE jsonb_build_array(
        jsonb_build_array(0, coalesce(over_s, replied_s), NULL, coalesce(over_s, replied_s)) ||
        CASE times.level ->> 'unit'
            WHEN 'loss_ratio' THEN jsonb_build_array(1000, 0, 1)
            WHEN 'ms' THEN jsonb_build_array(now_is, now_is, now_is, now_is)
            ELSE jsonb_build_array(now_is, now_is)
        END)
    END
"""
TO_TRACKS = f"""
    WITH times AS (
        SELECT
            id,
            level,
            extract(epoch FROM since)::float8 AS begun_s,
            (level ->> 'peak')::float8 AS peak,
            coalesce(level -> 'now', level -> 'peak') AS now_is,
            extract(epoch FROM (level ->> 'newest_at')::timestamptz)::float8 AS newest_s,
            extract(epoch FROM (level ->> 'last_reply')::timestamptz)::float8 AS silent_s,
            extract(epoch FROM (level ->> 'first_reply')::timestamptz)::float8 AS replied_s,
            extract(epoch FROM (level ->> 'over_since')::timestamptz)::float8 AS over_s
        FROM incident_path
        WHERE level ? 'peak'
    )
    UPDATE incident_path
    SET level = jsonb_build_object(
        'condition', CASE WHEN over_s IS NULL THEN 5 ELSE 0 END,
        'newest_s', coalesce(newest_s, begun_s),
        'segments', jsonb_build_array({TROUBLE}) || {OUTAGE} || {CLEAN}
    )
    FROM times
    WHERE incident_path.id = times.id
"""


class Migration(migrations.Migration):
    dependencies = [("alerts", "0016_over_since")]

    operations = [
        migrations.AlterField(
            model_name="incidentpath",
            name="level",
            field=models.JSONField(
                help_text="The track of its signal while it lasts, as present.models.copy_of; null if unknown.",
                null=True,
            ),
        ),
        migrations.RunSQL(TO_TRACKS, migrations.RunSQL.noop),
        migrations.AlterField(
            model_name="incident",
            name="ended_at",
            field=models.DateTimeField(
                help_text="When its last trouble ended, once it is resolved; null if nothing tells.", null=True
            ),
        ),
        migrations.RemoveField(model_name="incident", name="worst_loss"),
        migrations.RemoveIndex(model_name="judgedpath", name="judged_path_raised"),
        migrations.RemoveField(model_name="judgedpath", name="raised_ms"),
        migrations.RemoveField(model_name="judgedpath", name="before_ms"),
    ]

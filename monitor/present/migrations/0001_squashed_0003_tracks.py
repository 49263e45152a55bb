"""Tracks, and for Grafana the present of each path by them, as `monitor.present.read` has it."""

from django.db import migrations, models

from monitor.accounts import row_policies

ID = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")
TRACKS = migrations.CreateModel(
    "PathTrack",
    {
        "id": ID,
        "signal": models.SmallIntegerField(help_text="track.Signal"),
        "way": models.TextField(default="", help_text="forward or reverse by STAMP; empty for round trips"),
        "packet_bytes": models.IntegerField(default=0, help_text="0 for packets of all sizes"),
        "condition": models.SmallIntegerField(help_text="track.Condition"),
        "newest_at": models.DateTimeField(help_text="The newest burst that counts; null before any.", null=True),
        "segments": models.JSONField(help_text="State, begin with its 95% set, and the level of each, oldest first."),
        "outages": models.JSONField(
            default=list, help_text="Last reply before, and first reply after each of the newest."
        ),
        "path": models.ForeignKey("mesh.path", models.CASCADE, db_index=False, related_name="+"),
        "interval": models.JSONField(
            help_text="Ends of the loss of a normal track that may be above its limit.", null=True
        ),
    }.items(),
    {
        "db_table": "path_track",
        "constraints": [
            models.UniqueConstraint(fields=("path", "signal", "way", "packet_bytes"), name="track_once_per_path")
        ],
    },
)

# By the numbers of track.Condition, in their order; 4 to 7 are those of a path in trouble.
WORDS = "'normal', 'awaited', 'own_tests', 'overdue', 'suspect', 'bad', 'flaps', 'dead', 'set_aside', 'not_permitted'"

# A segment is [state, begin, earliest, latest, …], of loss with sent, lost and together after these; the state of a
# clean one is 0. The trouble began with the newest segment that is not clean after one that is, or after none.
VIEW = f"""
    CREATE VIEW reporting.path_condition AS
    SELECT
        path.path_id, path.name, path.source, path.destination, path.family,
        (ARRAY[{WORDS}])[worst.condition + 1] AS condition,
        (pooled.segments -> -1 ->> 5)::double precision / nullif((pooled.segments -> -1 ->> 4)::double precision, 0)
            AS loss_ratio,
        to_timestamp((worst.segments -> -1 ->> 1)::double precision) AS since,
        pooled.newest_at,
        CASE WHEN worst.condition BETWEEN 4 AND 7 THEN (
            SELECT to_timestamp((stretch.segment ->> 1)::double precision)
            FROM (
                SELECT
                    segment, number, (segment ->> 0)::integer AS state,
                    lag((segment ->> 0)::integer, 1, 0) OVER (ORDER BY number) AS state_before
                FROM jsonb_array_elements(worst.segments) WITH ORDINALITY AS listed (segment, number)
            ) AS stretch
            WHERE stretch.state <> 0 AND stretch.state_before = 0
            ORDER BY stretch.number DESC
            LIMIT 1
        ) END AS onset_at
    FROM reporting.path AS path
    INNER JOIN (
        SELECT DISTINCT ON (path_id) path_id, condition, segments
        FROM path_track
        ORDER BY path_id, condition DESC, signal, way, packet_bytes
    ) AS worst ON worst.path_id = path.path_id
    LEFT JOIN path_track AS pooled
        ON pooled.path_id = path.path_id AND pooled.signal = 0 AND pooled.way = '' AND pooled.packet_bytes = 0
    WHERE NOT path.is_retired
"""


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("present", "0001_tracks"), ("present", "0002_path_condition_view"), ("present", "0003_interval"),
    ]  # fmt: skip

    dependencies = [
        ("mesh", "0001_squashed_0014_tables"),
        ("accounts", "0002_squashed_0006_read_policies"),
        ("archive", "0002_squashed_0034_reporting"),
    ]

    operations = [TRACKS, row_policies.by_path("path_track"), migrations.RunSQL(VIEW)]

-- One row for each site in use and each UTC hour or day of [since, until) with an open incident on a path of the
-- site, from it or to it: the seconds with an open incident of all its watched paths together, overlapping incidents of a path
-- once, and the number of those paths. A finding lasts from the onset, one that joined later from its own begin by its rule, to
-- its own end or the last bad burst of the incident, of an open one that is over as far as known its end of `over_at`; without
-- the time between the last bad burst and the onset after it where the incident reopened. A path with which it reopened has lost its first time: it counts as one of the first.
WITH lasting AS (
    SELECT
        incident.id, opened_at, reopened_at, coalesce(began_at, opened_at) AS newest_at,
        least(
            coalesce(began_at, opened_at), (SELECT min(earlier_began_at) FROM incident_turn AS turn WHERE turn.incident_id = incident.id)
        ) AS began_at,
        coalesce(ended_at, closed_at, over_of.at, %(now)s::timestamptz) AS ended_at
    FROM incident
    LEFT JOIN unnest(%(over_ids)s::bigint[], %(over_at)s::timestamptz[]) AS over_of (incident_id, at) ON over_of.incident_id = incident.id
    WHERE
        NOT is_pending AND least(began_at, opened_at) < %(until)s::timestamptz
        AND (closed_at IS NULL OR closed_at > %(since)s::timestamptz)
),
gaps AS (
    SELECT incident_id, range_agg(tstzrange(over_at, CASE WHEN onset_at BETWEEN over_at AND at THEN onset_at ELSE at END)) AS closed
    FROM (
        SELECT
            turn.incident_id, turn.turn, turn.at,
            coalesce(turn.earlier_ended_at, lag(turn.at) OVER in_order, turn.at) AS over_at,
            coalesce(
                min(turn.earlier_began_at) OVER (in_order ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING), lasting.newest_at
            ) AS onset_at
        FROM incident_turn AS turn
        INNER JOIN lasting ON lasting.id = turn.incident_id
        WHERE turn.turn IN ('resolved', 'reopened')
        WINDOW in_order AS (PARTITION BY turn.incident_id ORDER BY turn.at, turn.id)
    ) AS ends
    WHERE turn = 'reopened'
    GROUP BY incident_id
),
spans AS (
    SELECT
        finding.path_id,
        unnest(
            range_agg(
                tstzmultirange(tstzrange(began.at, greatest(least(lasting.ended_at, finding.ended_at), began.at)))
                - coalesce(gaps.closed, '{{}}'::tstzmultirange)
            ) * tstzmultirange(tstzrange(%(since)s::timestamptz, least(%(until)s::timestamptz, %(now)s::timestamptz)))
        ) AS span
    FROM lasting
    INNER JOIN incident_path AS finding ON finding.incident_id = lasting.id
    LEFT JOIN gaps ON gaps.incident_id = lasting.id
    CROSS JOIN LATERAL (
        SELECT
            CASE
                WHEN finding.added_at <= lasting.opened_at OR finding.added_at = lasting.reopened_at THEN lasting.began_at
                ELSE greatest(lasting.began_at, least(finding.since, finding.added_at))
            END AS at
    ) AS began
    GROUP BY finding.path_id
),
pieces AS (
    SELECT
        spans.path_id, piece.at,
        extract(
            epoch FROM upper(spans.span * tstzrange(piece.at, piece.at + interval '1 {tier}'))
            - lower(spans.span * tstzrange(piece.at, piece.at + interval '1 {tier}'))
        ) AS lasts_s
    FROM spans
    CROSS JOIN LATERAL generate_series(
        date_trunc('{tier}', lower(spans.span), 'UTC'), upper(spans.span) - interval '1 microsecond', interval '1 {tier}'
    ) AS piece (at)
),
touched AS MATERIALIZED (
    SELECT DISTINCT unnest(ARRAY[source.site_id, destination.site_id]) AS site_id
    FROM (SELECT DISTINCT path_id FROM spans) AS span
    INNER JOIN path ON path.id = span.path_id
    INNER JOIN host AS source ON source.id = path.source_id
    INNER JOIN host AS destination ON destination.id = path.destination_id
),
tested AS MATERIALIZED (
    SELECT DISTINCT measurement.path_id
    FROM measurement
    INNER JOIN test ON test.id = measurement.test_id
    WHERE
        measurement.retired_at IS NULL AND test.kind IN ('ping', 'tcp-ping', 'stamp', 'throughput')
        AND EXISTS (SELECT FROM touched)
),
watched AS MATERIALIZED (
    SELECT path.id AS path_id, ends.site_id
    FROM tested
    INNER JOIN path ON path.id = tested.path_id
    INNER JOIN host AS source ON source.id = path.source_id
    INNER JOIN host AS destination ON destination.id = path.destination_id
    CROSS JOIN LATERAL (SELECT DISTINCT unnest(ARRAY[source.site_id, destination.site_id]) AS site_id) AS ends
    INNER JOIN touched ON touched.site_id = ends.site_id
    WHERE path.retired_at IS NULL
),
paths AS (
    SELECT site_id, count(*) AS paths FROM watched GROUP BY site_id
)
SELECT
    watched.site_id, pieces.at, sum(pieces.lasts_s)::double precision AS incident_s, min(paths.paths) AS paths
FROM pieces
INNER JOIN watched ON watched.path_id = pieces.path_id
INNER JOIN paths ON paths.site_id = watched.site_id
GROUP BY watched.site_id, pieces.at
ORDER BY watched.site_id, pieces.at

-- Stores the gaps that are not there yet, but for those of the future. Returns nothing.
INSERT INTO agent_gap (site_id, test, every_s, reason, since, until)
SELECT %(site_id)s, test, every_s, reason, since, until
FROM unnest(
    %(tests)s::text[], %(every_s)s::integer[], %(reasons)s::text[], %(since)s::timestamptz[], %(until)s::timestamptz[]
) AS came (test, every_s, reason, since, until)
WHERE since < until
ON CONFLICT DO NOTHING

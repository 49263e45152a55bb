-- Adds sequence numbers, as text of ranges, to those that came for each of these days. Adding again changes nothing.
INSERT INTO delivered_day (site_id, spool, day, sequences)
SELECT %(site_id)s, %(spool)s, day, sequences::int8multirange
FROM unnest(%(days)s::date[], %(sequences)s::text[]) AS came (day, sequences)
ON CONFLICT (site_id, spool, day) DO UPDATE SET sequences = delivered_day.sequences + excluded.sequences
WHERE NOT delivered_day.sequences @> excluded.sequences

-- Compresses the chunks of bursts that hold nothing from `before` on and are not compressed yet. One row for each.
SELECT compress_chunk(format('%%I.%%I', chunk_schema, chunk_name)::regclass)
FROM timescaledb_information.chunks
WHERE
    hypertable_schema = current_schema() AND hypertable_name = 'burst' AND NOT is_compressed
    AND range_end <= %(before)s::timestamptz

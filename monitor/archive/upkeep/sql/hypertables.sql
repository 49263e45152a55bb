-- One row for each table of this schema that TimescaleDB keeps in chunks: its name, and how much time a new chunk spans.
SELECT hypertable_name AS name, time_interval AS chunk_interval
FROM timescaledb_information.dimensions
WHERE hypertable_schema = current_schema()
ORDER BY hypertable_name

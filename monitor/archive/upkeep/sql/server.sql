-- One row: the fields of monitor.archive.upkeep.server.Server, as the server tells them to this session. What only a superuser may
-- see is null for others.
SELECT
    current_setting('server_version_num')::integer AS version_number,
    current_setting('timezone') AS session_time_zone,
    (SELECT reset_val FROM pg_settings WHERE name = 'TimeZone') AS default_time_zone,
    current_setting('max_connections')::integer AS max_connections,
    pg_size_bytes(current_setting('effective_cache_size')) AS cache_bytes,
    pg_database_size(current_database()) AS database_bytes,
    (SELECT setting FROM pg_settings WHERE name = 'data_directory') AS data_directory,
    (SELECT extversion FROM pg_extension WHERE extname = 'timescaledb') AS timescaledb,
    (SELECT array_agg(version) FROM pg_available_extension_versions WHERE name = 'timescaledb') AS timescaledb_versions,
    (SELECT setting LIKE '%%timescaledb%%' FROM pg_settings WHERE name = 'shared_preload_libraries') AS preloads_timescaledb,
    current_setting('timescaledb.license', TRUE) AS timescaledb_licence

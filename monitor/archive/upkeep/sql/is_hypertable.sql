-- One row if the table is a hypertable.
SELECT 1
FROM timescaledb_information.hypertables
WHERE hypertable_schema = current_schema() AND hypertable_name = %(table)s

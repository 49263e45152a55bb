-- Where COPY puts rows of {table} before they are stored. Lives as long as the connection, its rows as long as the
-- transaction at most.
CREATE TEMPORARY TABLE IF NOT EXISTS staged_{table} (LIKE {table} INCLUDING DEFAULTS) ON COMMIT DELETE ROWS

-- Where COPY puts bursts of which some may be stored already: the columns of burst, in its order, without its keys. Lives
-- as long as the connection, its rows as long as the transaction.
CREATE TEMPORARY TABLE IF NOT EXISTS staged_burst (LIKE burst) ON COMMIT DELETE ROWS

-- Where COPY puts bursts before they are stored: the columns of burst without its constraints, in the order of
-- monitor.archive.copying. Lives as long as the connection, its rows as long as the transaction.
CREATE TEMPORARY TABLE IF NOT EXISTS staged_burst (
    path_id integer,
    measured_at timestamptz,
    packet_bytes integer,
    outcome text,
    sent smallint,
    received smallint,
    duplicates smallint,
    reordered smallint,
    late smallint,
    ttl smallint,
    ttl_changes smallint,
    during_test boolean,
    rate_limited boolean,
    stamp text,
    stamps_lost smallint,
    clock_source text,
    waited smallint,
    errors text,
    path_mtu_bytes integer,
    address text,
    detail text,
    rtts_ms real[]
) ON COMMIT DELETE ROWS

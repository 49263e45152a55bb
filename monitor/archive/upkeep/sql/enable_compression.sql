-- Lets chunks of bursts be compressed. Needs TimescaleDB's Community edition; saying it again changes nothing.
ALTER TABLE burst SET (
    timescaledb.compress, timescaledb.compress_segmentby = 'path_id, packet_bytes',
    timescaledb.compress_orderby = 'measured_at'
)

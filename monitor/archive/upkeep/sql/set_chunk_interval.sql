-- Lets chunks of a hypertable that are made from now on span so many seconds; those there are stay as they are.
SELECT set_chunk_time_interval(%(table)s::regclass, make_interval(secs => %(span_s)s))

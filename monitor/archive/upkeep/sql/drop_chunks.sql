-- Drops the chunks of a hypertable that hold nothing from `before` on. One row for each.
SELECT drop_chunks(%(table)s::regclass, older_than => %(before)s::timestamptz)

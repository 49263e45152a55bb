-- Moves the staged rows to {table}, in the place of those with the same keys, in the order of their keys.
WITH staged AS (
    DELETE FROM staged_{table} RETURNING {staged}
)
INSERT INTO {table} ({columns})
SELECT {values} FROM staged ORDER BY {keys}
ON CONFLICT ({keys}) DO UPDATE SET {updates}

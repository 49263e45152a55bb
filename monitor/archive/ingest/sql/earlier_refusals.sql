-- The refused results of a spool with these sequence numbers: sequence, reason.
SELECT sequence, reason
FROM refused_result
WHERE
    site_id = %(site_id)s AND spool = %(spool)s
    AND sequence >= %(first)s::bigint AND sequence <= %(last)s::bigint

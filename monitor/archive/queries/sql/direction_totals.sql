-- Of each of these paths with summaries of directions in the period: as direction_counts_since.sql.
SELECT
    path_id, sum(counted) AS sent, sum(forward_lost) AS forward_lost, sum(reverse_lost) AS reverse_lost,
    sum(bursts_counted) AS bursts, sum(forward_lossy) AS forward_lossy, sum(reverse_lossy) AS reverse_lossy,
    sum(undecided) AS undecided
FROM (
{pieces}
) AS part
GROUP BY path_id
HAVING sum(bursts_counted) > 0

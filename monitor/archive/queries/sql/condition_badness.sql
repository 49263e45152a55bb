-- In trouble, by the condition; normal; all others, of which nothing is known now; then by the loss of packets of the size,
-- or of any where they have no track of their own; then by path.
(
    CASE
        WHEN condition BETWEEN %(least_trouble)s AND %(most_trouble)s THEN 1 + condition WHEN condition = %(normal)s THEN 1
        ELSE 0
    END::bigint << 52
)
+ (round(1000000 * coalesce(of_size, of_all, 0))::bigint << 31) - path_id

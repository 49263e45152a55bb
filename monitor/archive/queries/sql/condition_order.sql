-- In trouble, by the condition; normal; all others, of which nothing is known now; then by the loss of packets of the size,
-- or of any where they have no track of their own.
CASE
    WHEN condition BETWEEN %(least_trouble)s AND %(most_trouble)s THEN condition WHEN condition = %(normal)s THEN 0 ELSE -1
END,
coalesce(of_size, of_all) NULLS FIRST

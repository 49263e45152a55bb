-- A metric of each of the rows given as arrays, in their order.
SELECT ({value})::double precision
FROM unnest({arrays}) WITH ORDINALITY AS summary ({columns}, place)
ORDER BY place

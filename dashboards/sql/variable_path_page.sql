-- The page of the chosen path, or the home page without a path, as between a site and itself.
SELECT '/' || COALESCE('paths/' || NULLIF(${path:sqlstring}, '') || '/', '') AS __value

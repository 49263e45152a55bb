-- One row for each path: between what it runs, seen by {by}, and how far that is by the haversine formula on a sphere of
-- the Earth's mean radius. A path between several groups has a row for each
-- pair of them.
SELECT
    path.id AS path_id, {source} AS source, {destination} AS destination,
    2 * 6371.0088 * asin(sqrt(least(1,
        sind((there.latitude_deg - here.latitude_deg) / 2) ^ 2
        + cosd(here.latitude_deg) * cosd(there.latitude_deg)
        * sind((there.longitude_deg - here.longitude_deg) / 2) ^ 2
    ))) AS distance_km
FROM path
INNER JOIN host AS source_host ON source_host.id = path.source_id
INNER JOIN host AS destination_host ON destination_host.id = path.destination_id
INNER JOIN site AS here ON here.id = source_host.site_id
INNER JOIN site AS there ON there.id = destination_host.site_id
{groups}
WHERE %(family)s::integer IS NULL OR path.family = %(family)s::integer

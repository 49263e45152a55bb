-- Which results the figures of the period are of: all of exactly the period up to three hours, beyond those of whole hours,
-- days or months that it touches.
SELECT CASE
    WHEN reporting.is_short($__timeFrom(), $__timeTo()) AND reporting.keeps_bursts($__timeTo()) THEN 'exactly the period'
    ELSE 'whole ' || tier || 's since '
        || to_char(reporting.start_of(tier, $__timeFrom()) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') || ' UTC'
END AS __value
FROM reporting.pooled_tier($__timeFrom(), $__timeTo()) AS tier

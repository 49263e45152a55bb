-- Where the pages of Soundings are, from SOUNDINGS_PUBLIC_URL when `python -m dashboards reader` last ran.
SELECT COALESCE(NULLIF(current_setting('soundings.public_url', true), ''), 'http://localhost:8000') AS __value

-- A site's agent has accounted for all that began before `until`; the first time tells from when on it does.
INSERT INTO agent_account (site_id, since, until)
VALUES (%(site_id)s, %(until)s::timestamptz, %(until)s::timestamptz)
ON CONFLICT (site_id) DO UPDATE SET until = excluded.until
WHERE agent_account.until < excluded.until

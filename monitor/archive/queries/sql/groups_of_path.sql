INNER JOIN site_group_sites AS source_member ON source_member.site_id = here.id
INNER JOIN site_group AS source_group ON source_group.id = source_member.group_id AND source_group.retired_at IS NULL
INNER JOIN site_group_sites AS destination_member ON destination_member.site_id = there.id
INNER JOIN site_group AS destination_group
    ON destination_group.id = destination_member.group_id AND destination_group.retired_at IS NULL

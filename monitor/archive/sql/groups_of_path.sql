INNER JOIN site_group_sites AS source_member ON source_member.site_id = here.id
INNER JOIN site_group_sites AS destination_member
    ON destination_member.site_id = there.id AND destination_member.group_id = source_member.group_id
INNER JOIN site_group ON site_group.id = source_member.group_id

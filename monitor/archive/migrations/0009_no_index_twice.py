"""The indexes of `site_id` alone go: each of these tables has a key that begins with it.

By name: Django's own way to alter a foreign key would make the key anew, and read all rows for that.
"""

import django.db.models.deletion
from django.db import migrations, models

SITE = models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="mesh.site")
INDEXES = {
    "agentgap": ("agent_gap", "agent_gap_site_id_26bfc727"),
    "deliveredday": ("delivered_day", "delivered_day_site_id_3ae082cb"),
    "receivedbatch": ("received_batch", "received_batch_site_id_975d00ba"),
    "refusedresult": ("refused_result", "refused_result_site_id_55a5b178"),
}


class Migration(migrations.Migration):
    dependencies = [
        ("archive", "0008_ledger"),
    ]

    operations = [
        migrations.RunSQL(
            f"DROP INDEX {index}",
            f"CREATE INDEX {index} ON {table} (site_id)",
            [migrations.AlterField(model_name=model, name="site", field=SITE.clone())],
        )
        for model, (table, index) in INDEXES.items()
    ]

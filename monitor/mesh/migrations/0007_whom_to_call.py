from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mesh", "0006_disk_to_disk_tests")]

    operations = [
        migrations.AddField(
            model_name="site",
            name="contact",
            field=models.TextField(default="", db_default="", help_text="Contact, as free text."),
        ),
    ]

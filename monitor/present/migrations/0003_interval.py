from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("present", "0002_path_condition_view")]

    operations = [
        migrations.AddField(
            model_name="pathtrack",
            name="interval",
            field=models.JSONField(
                help_text="Ends of the loss of a normal track that may be above its limit.", null=True
            ),
        ),
    ]

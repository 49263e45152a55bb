from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("api", "0003_user_token"),
    ]

    operations = [
        migrations.AddField(
            model_name="usertoken",
            name="may_operate",
            field=models.BooleanField(db_default=False, default=False, help_text="acknowledge, silence, comment"),
        ),
    ]

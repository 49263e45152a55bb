from django.db import migrations


def make_admins_operators(apps, schema_editor):
    """Nothing ever checked the role `admin`: it allowed what `operator` allows."""
    Group = apps.get_model("auth", "Group")
    groups = Group.objects.using(schema_editor.connection.alias)
    admin = groups.filter(name="admin").first()
    if admin is None:
        return
    operator, _ = groups.get_or_create(name="operator")
    for user in admin.user_set.all():
        user.groups.add(operator)
    admin.delete()


class Migration(migrations.Migration):
    dependencies = [("accounts", "0001_initial"), ("auth", "0012_alter_user_first_name_max_length")]

    operations = [migrations.RunPython(make_admins_operators, migrations.RunPython.noop)]

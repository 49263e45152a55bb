"""Users who are logged in."""

from django.contrib.auth.models import Group, User
from django.test import Client


def logged_in(role, **options):
    """A client of a user, named as their role."""
    user = User.objects.create_user(role, password="long and winding")
    user.groups.add(Group.objects.get(name=role))
    client = Client(**options)
    client.force_login(user)
    return client

"""Roles, which are Django groups, and their permissions.

By default safe methods read, others operate; `needs` declares another action. Sites, tokens and accounts are changed
only by commands at the centre.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeVar

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group, User
from django.http import HttpRequest

READING = frozenset({"GET", "HEAD", "OPTIONS"})
View = TypeVar("View", bound=Callable[..., Any])


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"


class Action(StrEnum):
    READ = "read"
    OPERATE = "operate"


MAY = {
    Role.VIEWER: frozenset({Action.READ}),
    Role.OPERATOR: frozenset({Action.READ, Action.OPERATE}),
}


def roles_of(user: User) -> list[Role]:
    """Roles of a user; a superuser is operator."""
    names = set(user.groups.values_list("name", flat=True))
    return [role for role in Role if role in names or (role is Role.OPERATOR and user.is_superuser)]


def may(user: AbstractBaseUser | AnonymousUser, action: Action) -> bool:
    """Whether a role of the user permits the action."""
    return isinstance(user, User) and user.is_active and any(action in MAY[role] for role in roles_of(user))


def give_role(user: User, role: Role | None) -> None:
    """Replace the user's roles."""
    user.groups.remove(*Group.objects.filter(name__in=list(Role)))
    if role is not None:
        user.groups.add(Group.objects.get(name=role))
    if user.is_superuser and role is not Role.OPERATOR:
        User.objects.filter(pk=user.pk).update(is_superuser=False)


def needs(action: Action) -> Callable[[View], View]:
    def mark(view: View) -> View:
        view.needs = action  # type: ignore[attr-defined]
        return view

    return mark


def action_of(view: Callable[..., Any], request: HttpRequest) -> Action:
    said: Action | None = getattr(view, "needs", None)
    if said is not None:
        return said
    return Action.READ if request.method in READING else Action.OPERATE


def make_groups(*, using: str = "default", **_: Any) -> None:
    for role in Role:
        Group.objects.using(using).get_or_create(name=role)

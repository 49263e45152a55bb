"""Who may do what: the one table, for the pages and the API alike.

A role is a Django group of that name; the groups are made when the database is migrated. Views say with `needs` what
they do; one that says nothing reads where its method only reads, and operates where it changes something. Who is asked,
and what a refusal looks like, is in `monitor.accounts.access`. Sites, tokens and accounts are changed by commands at
the centre, which no role gives.
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


MEANING = {
    Action.READ: "see pages, charts, reports and the API",
    Action.OPERATE: "change what becomes of incidents and measurements: acknowledge, silence, comment, run again",
}
MAY = {
    Role.VIEWER: frozenset({Action.READ}),
    Role.OPERATOR: frozenset({Action.READ, Action.OPERATE}),
}


def roles_of(user: User) -> list[Role]:
    """The roles of a user; a superuser is operator."""
    names = set(user.groups.values_list("name", flat=True))
    return [role for role in Role if role in names or (role is Role.OPERATOR and user.is_superuser)]


def may(user: AbstractBaseUser | AnonymousUser, action: Action) -> bool:
    """Whether one of the user's roles allows it. One without a role may do nothing."""
    return isinstance(user, User) and user.is_active and any(action in MAY[role] for role in roles_of(user))


def needs(action: Action) -> Callable[[View], View]:
    """Says of a view what it does."""

    def mark(view: View) -> View:
        view.needs = action  # type: ignore[attr-defined]
        return view

    return mark


def action_of(view: Callable[..., Any], request: HttpRequest) -> Action:
    """What this request to a view does."""
    said: Action | None = getattr(view, "needs", None)
    if said is not None:
        return said
    return Action.READ if request.method in READING else Action.OPERATE


def make_groups(*, using: str = "default", **_: Any) -> None:
    """Make the groups that are not there."""
    for role in Role:
        Group.objects.using(using).get_or_create(name=role)

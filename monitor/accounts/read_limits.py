"""Limits of a reader, enforced by PostgreSQL's row-level security and the views of `limited_role`.

During a limited request the connection has the role `LIMITED`; all else runs as the tables' owner, who sees all rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.core.signals import request_finished
from django.db import DatabaseError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.models import Q

from monitor.accounts.limited_role import LIMITED
from monitor.accounts.models import ReadLimit, UserToken
from monitor.accounts.roles import roles_of

LIMIT = """
SELECT set_config('role', %s, false), set_config('search_path', 'limited, public', false),
    set_config('soundings.sites', %s, false), set_config('soundings.user', %s, false)
"""
UNLIMIT = "RESET ROLE; RESET search_path"
LIMITED_ROLE_MISSING = (
    "the database has no role for readers with limits: `manage.py database role --superuser-url-file FILE` creates it, "
    "and `manage.py migrate` gives it its rights"
)
_ATTRIBUTE = "soundings_limit"


class UnknownPlace(Exception):
    """The mesh has no such site or group."""


@dataclass(frozen=True, slots=True)
class PlaceNames:
    sites: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ", ".join((*(f"group {name}" for name in self.groups), *(f"site {name}" for name in self.sites)))


NOWHERE = PlaceNames()


class CannotLimit(Exception):
    """The connection may read nothing; the message says how to fix it."""


def readable_sites(user: User, token: UserToken | None = None) -> frozenset[int] | None:
    """Ids of the sites that may be read; None for all.

    A user's limit replaces its roles'; of several roles the widest counts. A token's limit narrows its user's.
    """
    of_reader = Q(user=user) | Q(role__isnull=False)
    limits = ReadLimit.objects.filter(of_reader if token is None else of_reader | Q(token=token))
    by_reader = {(limit.role, limit.token_id): limit for limit in limits}
    sites = _of_user(user, by_reader)
    narrowed = None if token is None else by_reader.get((None, token.pk))
    if narrowed is None:
        return sites
    return _sites_of(narrowed) if sites is None else sites & _sites_of(narrowed)


def _of_user(user: User, by_reader: dict[tuple[str | None, int | None], ReadLimit]) -> frozenset[int] | None:
    own = by_reader.get((None, None))
    if own is not None:
        return _sites_of(own)
    if not by_reader or user.is_superuser:
        return None
    limits = [by_reader.get((str(role), None)) for role in roles_of(user)]
    narrow = [_sites_of(limit) for limit in limits if limit is not None]
    return frozenset().union(*narrow) if narrow and len(narrow) == len(limits) else None


def _sites_of(limit: ReadLimit) -> frozenset[int]:
    of_groups = limit.groups.exclude(sites=None).values_list("sites", flat=True)
    return frozenset((*limit.sites.values_list("pk", flat=True), *of_groups))


def group_names() -> frozenset[str]:
    groups: Any = ReadLimit.groups.rel.model
    return frozenset(groups.objects.values_list("name", flat=True))


def store(places: PlaceNames, **reader: Any) -> None:
    """Limit a reader (`user`, `role` or `token`). Raises `UnknownPlace`."""
    with transaction.atomic():
        limit, _ = ReadLimit.objects.get_or_create(**reader)
        for relation, names in ((limit.sites, places.sites), (limit.groups, places.groups)):
            rows: dict[str, Any] = {row.name: row for row in relation.model.objects.filter(name__in=names)}
            for name in names:
                if name not in rows:
                    raise UnknownPlace(f"the mesh has no {relation.model._meta.verbose_name} {name}")
            relation.set([row.pk for row in rows.values()])


def limits_of(user: User) -> PlaceNames | None:
    limit = ReadLimit.objects.filter(user=user).first()
    if limit is None:
        return None
    return PlaceNames(
        tuple(limit.sites.values_list("name", flat=True)), tuple(limit.groups.values_list("name", flat=True))
    )


def limit(sites: Iterable[int], user: str = "") -> None:
    """Let the connection read only these sites, and the user's audit records, until `unlimit`. Raises `CannotLimit`."""
    settings = (",".join(str(site) for site in sorted(sites)), user)
    try:
        _apply(connection, settings)
    except DatabaseError as error:
        raise CannotLimit(LIMITED_ROLE_MISSING) from error
    setattr(connection, _ATTRIBUTE, settings)


def unlimit() -> None:
    if not is_limited():
        return
    if connection.connection is not None:
        try:
            with connection.cursor() as cursor:
                cursor.execute(UNLIMIT)
        except DatabaseError:
            connection.close()  # the next has no limit
    delattr(connection, _ATTRIBUTE)


def is_limited() -> bool:
    """Whether this request may read only some sites: shared caches must not be used."""
    return hasattr(connection, _ATTRIBUTE)


def connect() -> None:
    connection_created.connect(_limit_again, dispatch_uid="read limits")
    request_finished.connect(_end, dispatch_uid="read limits")


def _apply(wrapper: BaseDatabaseWrapper, settings: tuple[str, str]) -> None:
    with wrapper.cursor() as cursor:
        cursor.execute(LIMIT, [LIMITED, *settings])


def _limit_again(*, connection: BaseDatabaseWrapper, **_: Any) -> None:
    settings = getattr(connection, _ATTRIBUTE, None)
    if settings is not None:
        _apply(connection, settings)


def _end(**_: Any) -> None:
    unlimit()

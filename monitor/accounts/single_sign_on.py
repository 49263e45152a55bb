"""Single sign-on by OpenID Connect: authorization code flow with PKCE, state and nonce, by Authlib.

ID tokens are checked by OpenID Connect Core, section 3.1.3.7. Metadata and keys are fetched at each login.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import requests
from authlib.integrations.base_client import OAuthError
from authlib.integrations.django_client import OAuth
from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from joserfc.errors import JoseError

from monitor.accounts import read_limits
from monitor.accounts.models import ReadLimit, SingleSignOnIdentity
from monitor.accounts.oidc_settings import Grant, OidcSettings
from monitor.accounts.read_limits import PlaceNames
from monitor.accounts.roles import Role, give_role, roles_of

# Asymmetric only: never `none`, nor HMAC with the client's secret. RFC 9864 renames `EdDSA` to `Ed25519`.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
# RFC 6749, section 4.1.2.1, and OpenID Connect Core, section 3.1.2.6, except `access_denied`.
ERROR_CODES = (
    "invalid_request", "unauthorized_client", "unsupported_response_type", "invalid_scope", "server_error",
    "temporarily_unavailable", "interaction_required", "login_required", "account_selection_required",
    "consent_required",
)  # fmt: skip
CLOCK_SKEW_S = 60
TIMEOUT_S = 10.0
ID_TOKEN = "single_sign_on_id_token"
NEXT = "single_sign_on_next"
BACKEND = "django.contrib.auth.backends.ModelBackend"


class SignOnError(Exception):
    """The login failed; the message is for the user."""


class ProviderDown(SignOnError):
    """The provider does not answer."""


class Denied(SignOnError):
    """The provider knows the user, who may not log in here."""


def provider_settings() -> OidcSettings:
    oidc = settings.OIDC
    assert oidc is not None, "single sign-on is not set up"
    return oidc


def begin(request: HttpRequest, redirect_uri: str) -> HttpResponse:
    """Redirect to the provider. Raises `SignOnError`."""
    try:
        response: HttpResponse = _client().authorize_redirect(request, redirect_uri)
    except requests.RequestException as error:
        raise ProviderDown(f"The login service does not answer: {type(error).__name__}.") from error
    except (KeyError, RuntimeError, ValueError) as error:
        raise SignOnError(f"The login service has no usable configuration: {error}.") from error
    return response


def finish(request: HttpRequest) -> User:
    """Log in the user whom the provider redirected here. Raises `SignOnError`."""
    oidc = provider_settings()
    if "error" in request.GET:
        raise _refusal(request.GET["error"])
    claims_options = {
        "iss": {"essential": True, "value": oidc.issuer},
        "aud": {"essential": True, "value": oidc.client_id},
    }
    try:
        token = _client().authorize_access_token(request, claims_options=claims_options, leeway=CLOCK_SKEW_S)
    except requests.RequestException as error:
        raise ProviderDown(f"The login service does not answer: {type(error).__name__}.") from error
    except (OAuthError, JoseError, KeyError, RuntimeError, ValueError) as error:
        raise SignOnError(f"The login service's answer is not valid: {_reason(error)}.") from error
    claims = token.get("userinfo")
    if claims is None:
        raise SignOnError("The login service sent no ID token: its client needs the scope openid.")
    user = account_of(claims, oidc)
    login(request, user, backend=BACKEND)
    request.session[ID_TOKEN] = token["id_token"]
    request.session.set_expiry(timezone.now() + timedelta(hours=oidc.session_hours))
    return user


def _refusal(error: str) -> SignOnError:
    """The provider's refusal by its code."""
    if error == "access_denied":
        return Denied("The login service refused the login, or you did.")
    # Anybody can forge a link with another description, so it is not shown.
    reason = error if error in ERROR_CODES else "its reason is none of OpenID Connect"
    return SignOnError(f"The login service refused the login: {reason}.")


def account_of(claims: Mapping[str, Any], oidc: OidcSettings) -> User:
    """Account of these claims, created at first login, with its groups' role and limit. Raises `Denied`."""
    subject, name = str(claims["sub"]), str(claims.get(oidc.user_claim) or "")
    if "\x00" in subject:
        raise SignOnError("The login service's answer is not valid: a NUL in the claim sub.")
    groups = _groups(claims.get(oidc.groups_claim))
    grant = oidc.grant(groups, read_limits.group_names())
    with transaction.atomic():
        identity = (
            SingleSignOnIdentity.objects.select_related("user").filter(issuer=oidc.issuer, subject=subject).first()
        )
        if identity is not None:
            _set_grant(identity.user, grant)
        elif grant.role is not None:
            identity = _new_identity(oidc, subject, name, grant)
    if grant.role is None:
        gone = sorted({name for entry in oidc.roles if entry.group in groups for name in entry.mesh_groups})
        limited = f"Your access is limited to groups that do not exist here: {', '.join(gone)}." if gone else ""
        none = limited or "None of your groups may use Soundings."
        raise Denied(f"{none} Ask the administrator of Soundings for access.")
    assert identity is not None
    if not identity.user.is_active:
        raise Denied("Your account is closed.")
    return identity.user


def end_session_url(request: HttpRequest, back_to: str) -> str | None:
    """The provider's address that ends the session there too; None for other logins, or without such an address."""
    id_token = request.session.get(ID_TOKEN)
    if id_token is None or settings.OIDC is None:
        return None
    try:
        return str(_client().create_logout_url(back_to, id_token, client_id=settings.OIDC.client_id)["url"])
    except (requests.RequestException, RuntimeError, ValueError):
        return None  # the session here ends all the same


def _new_identity(oidc: OidcSettings, subject: str, name: str, grant: Grant) -> SingleSignOnIdentity:
    user = User(username=name)
    user.set_unusable_password()
    try:
        user.full_clean(exclude=["password"])
        with transaction.atomic():
            user.save()
    except (ValidationError, IntegrityError) as error:
        if User.objects.filter(username=name).exists():
            message = f"The name {name} belongs to another account here: the administrator of Soundings can remove it."
        else:
            message = f"The claim {oidc.user_claim} is no name of an account: {name!r}."
        raise Denied(message) from error
    _set_grant(user, grant)
    return SingleSignOnIdentity.objects.create(user=user, issuer=oidc.issuer, subject=subject)


def _groups(claim: Any) -> list[str]:
    return [group for group in ([claim] if not isinstance(claim, list) else claim) if isinstance(group, str)]


def _set_grant(user: User, grant: Grant) -> None:
    """Replace role and limit."""
    # Losing a role ends the sessions in all browsers.
    taken = {str(role) for role in roles_of(user)} - {grant.role}
    give_role(user, None if grant.role is None else Role(grant.role))
    if taken:
        # Django checks each session by the password's hash, and these accounts have none that anybody could type.
        user.set_unusable_password()
        user.save(update_fields=["password"])
    if grant.mesh_groups is None:
        ReadLimit.objects.filter(user=user).delete()
    else:
        try:
            read_limits.store(PlaceNames(groups=tuple(sorted(grant.mesh_groups))), user=user)
        except read_limits.UnknownPlace:  # `mesh apply` has removed a group since it was read
            _set_grant(user, Grant(None))


def _client() -> Any:
    oidc = provider_settings()
    registry = OAuth()
    client = registry.register(
        "oidc",
        client_id=oidc.client_id,
        client_secret=oidc.client_secret,
        server_metadata_url=f"{oidc.issuer.rstrip('/')}/.well-known/openid-configuration",
        client_kwargs={"scope": oidc.scopes, "code_challenge_method": "S256", "default_timeout": TIMEOUT_S},
    )
    # At each login, so that new keys are known at once.
    metadata = client.load_server_metadata()
    if metadata.get("issuer") != oidc.issuer:
        raise ValueError(f"its issuer is {metadata.get('issuer')!r}, and SOUNDINGS_OIDC_ISSUER is {oidc.issuer!r}")
    offered = metadata.get("id_token_signing_alg_values_supported", ["RS256"])
    metadata["id_token_signing_alg_values_supported"] = [name for name in offered if name in ALGORITHMS]
    return client


def _reason(error: Exception) -> str:
    return str(getattr(error, "description", "") or error or type(error).__name__).rstrip(".")

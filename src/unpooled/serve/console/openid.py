"""Signing in through the organisation's own OpenID Connect provider.

The authorization code flow with PKCE, state and nonce, by Authlib. What a started sign-in must remember stays here,
under a random key in a cookie, and serves once. A token must be signed by the provider, for this service.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from unpooled import atomic
from unpooled.errors import InputError
from unpooled.serve import logs
from unpooled.serve.accounts import people, sessions
from unpooled.serve.console.console import Console, Here
from unpooled.serve.console.pages.sign_in import address_of
from unpooled.serve.console.rendering import page
from unpooled.serve.console.security import page_here, set_cookie
from unpooled.serve.settings import SignIn

router = APIRouter()

_BACK = "/sign-in/openid/back"
_SECONDS = 600
_STARTED = 10_000
_TIMEOUT = 10.0
_SIGNATURES = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
"""Those with a public key: neither `none`, nor those with the client secret as the key."""


@dataclass(frozen=True)
class Started:
    """A sign-in that waits for the provider's answer."""

    at: float
    wanted: str
    remembered: dict[str, Any]
    """What Authlib keeps: state, nonce, and the verifier of PKCE."""


@dataclass
class Provider:
    """A provider, through Authlib's client, and the sign-ins that were started there."""

    settings: SignIn
    client: Any
    started: OrderedDict[str, Started] = field(default_factory=OrderedDict)

    def begin(self, wanted: str, remembered: dict[str, Any]) -> str:
        key = secrets.token_urlsafe(32)
        self.started[key] = Started(time.monotonic(), wanted, remembered)
        if len(self.started) > _STARTED:
            self.started.popitem(last=False)
        return key

    def end(self, key: str) -> Started | None:
        """What was started under this key, once and not too long ago."""
        found = self.started.pop(key, None)
        return found if found and time.monotonic() - found.at < _SECONDS else None


def provider_of(console: Console) -> Provider | None:
    """The provider of a console's settings; InputError if it cannot be used."""
    settings = console.sign_in
    if settings is None:
        return None
    try:
        from authlib.integrations.starlette_client import OAuth
        from httpx2 import create_ssl_context
    except ImportError:
        raise InputError("sign_in: OpenID Connect needs the extra openid: pip install 'unpooled[openid]'") from None
    path = console.folder.root / settings.secret_file
    with atomic.naming(path, "read"):
        secret = path.read_text(encoding="utf-8").strip()
    client = OAuth().register(
        "provider",
        client_id=settings.client,
        client_secret=secret,
        server_metadata_url=f"{settings.issuer.rstrip('/')}/.well-known/openid-configuration",
        client_kwargs={
            "scope": "openid email profile",
            "code_challenge_method": "S256",
            "timeout": _TIMEOUT,
            "verify": create_ssl_context(),  # made once: loading all authorities takes long
        },
    )
    return Provider(settings, client)


@router.get("/sign-in/openid")
async def leave(request: Request, console: Here, next: str = "/") -> Response:
    """Send the browser to the provider."""
    provider = _provider(request)
    await _check_metadata(provider)
    remembered: dict[str, Any] = {}
    request.scope["session"] = remembered
    back = f"{'https' if console.secure else 'http'}://{request.headers['host']}{_BACK}"
    response: Response = await provider.client.authorize_redirect(request, back)
    key = provider.begin(page_here(next), remembered)
    # Not strict: the browser must send it when the provider leads back here.
    response.set_cookie(_cookie(console), key, _SECONDS, path="/", httponly=True, secure=console.secure, samesite="lax")
    return response


@router.get(_BACK)
async def come_back(request: Request, console: Here) -> Response:
    """Sign in whom the provider vouches for."""
    provider = _provider(request)
    if wait := console.attempts_from.take(address_of(request)):
        raise HTTPException(429, f"There were too many attempts: wait {wait} seconds.", {"Retry-After": str(wait)})
    started = provider.end(request.cookies.get(_cookie(console), ""))
    if started is None:
        raise HTTPException(403, "This sign-in was not started in this browser, or too long ago: sign in again.")
    request.scope["session"] = started.remembered
    subject, name = await _vouched(request, provider)
    person = await run_in_threadpool(people.vouched_for, console.database, subject, name)
    if person is None:
        text = f"There is no account for {name}, or it is disabled: an administrator of this service can help."
        raise HTTPException(403, text)
    console.attempts_from.give_back(address_of(request))
    token = await run_in_threadpool(sessions.begin, console.database, person, "signed in with OpenID Connect")
    # A page, not a redirect: as the provider led here, browsers would not send the strict cookie along.
    response = page(request, "continue", wanted=started.wanted)
    response.delete_cookie(_cookie(console), path="/", httponly=True, secure=console.secure, samesite="lax")
    set_cookie(response, console, token)
    return response


async def _vouched(request: Request, provider: Provider) -> tuple[str, str]:
    """Subject and name in the provider's token, once it is checked."""
    from authlib.common.errors import AuthlibBaseError
    from httpx2 import HTTPError
    from joserfc.errors import JoseError

    await _check_metadata(provider)
    expected = {
        "iss": {"essential": True, "value": provider.settings.issuer},
        "aud": {"essential": True, "value": provider.settings.client},
    }
    try:
        token = await provider.client.authorize_access_token(request, claims_options=expected)
    except (AuthlibBaseError, JoseError, HTTPError, ValueError, KeyError) as error:
        logs.event("openid refused", error=error)
        raise HTTPException(403, "The provider's answer was refused: sign in again.") from None
    claims = token.get("userinfo") or {}
    subject, name = claims.get("sub"), claims.get(provider.settings.claim)
    if not isinstance(subject, str) or not isinstance(name, str) or not subject or not name:
        raise HTTPException(403, f"The provider does not say who you are: its token has no {provider.settings.claim}.")
    if provider.settings.claim == "email" and claims.get("email_verified") is not True:
        raise HTTPException(403, "The provider has not verified your e-mail address.")
    return f"{provider.settings.issuer} {subject}", name


async def _check_metadata(provider: Provider) -> None:
    """Load what the provider says about itself, and use no more of it than is safe."""
    from httpx2 import HTTPError

    try:
        metadata = await provider.client.load_server_metadata()
    except (HTTPError, ValueError) as error:
        logs.event("openid provider not reached", error=error)
        raise HTTPException(502, "The OpenID Connect provider does not answer: try again later.") from None
    issuer = provider.settings.issuer
    addresses = [metadata.get(key, "") for key in ("authorization_endpoint", "token_endpoint", "jwks_uri")]
    scheme = urlsplit(issuer).scheme
    if metadata.get("issuer") != issuer or any(
        urlsplit(address).scheme not in ("https", scheme) for address in addresses
    ):
        provider.client.server_metadata.clear()
        raise HTTPException(502, "The OpenID Connect provider is not the one that the settings name.")
    offered = set(metadata.get("id_token_signing_alg_values_supported") or ["RS256"])
    metadata["id_token_signing_alg_values_supported"] = sorted(offered & _SIGNATURES) or ["RS256"]


def _provider(request: Request) -> Provider:
    provider: Provider | None = request.app.state.provider
    if provider is None:
        raise HTTPException(404)
    return provider


def _cookie(console: Console) -> str:
    return f"{'__Host-' if console.secure else ''}unpooled-openid-{console.listens[1]}"

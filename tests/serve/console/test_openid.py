"""Signing in through an OpenID Connect provider, over real HTTP, also with one that lies."""

import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from browsing import CHEAP, HERE, Browser
from openid_provider import CLIENT, SECRET, OpenIdProvider, other_key, shared_key

from unpooled.errors import InputError
from unpooled.serve.accounts import people
from unpooled.serve.console.app import make_app
from unpooled.serve.console.console import Console
from unpooled.serve.settings import ServiceSettings, SignIn
from unpooled.serve.state.audit_log import acts

TRUSTED = httpx2.create_ssl_context()
"""Made once, since that takes long."""
ADA = "ada@bank.example"


@pytest.fixture
def provider() -> Iterator[OpenIdProvider]:
    made = OpenIdProvider()
    yield made
    made.close()


@pytest.fixture
def browser(provider: OpenIdProvider, console: Console) -> Browser:
    (console.folder.root / "secret").write_text(f"{SECRET}\n")
    console.settings = ServiceSettings.model_validate(
        {"party": "bank", "sign_in": {"issuer": provider.issuer, "client": CLIENT, "secret_file": "secret"}}
    )
    people.add_first_administrator(console.database, CHEAP, "root", "correct horse battery")
    people.add(console.database, CHEAP, "root", ADA, "analyst", None)
    return Browser(make_app(console))


def go_there(browser: Browser, wanted: str = "/account") -> str:
    """Follow the link to the provider; where the provider leads the browser then."""
    response = browser.get("/sign-in/openid", params={"next": wanted})
    assert response.status_code == 302, response.text
    back = httpx2.get(response.headers["location"], verify=TRUSTED).headers["location"]
    assert back.startswith(f"{HERE}/sign-in/openid/back?")
    return str(back)


def sign_in(browser: Browser) -> Any:
    return browser.get(go_there(browser))


def test_somebody_signs_in_through_the_provider(browser: Browser, provider: OpenIdProvider, console: Console) -> None:
    assert f"Sign in through {urlsplit(provider.issuer).netloc}" in browser.get("/sign-in").text
    response = sign_in(browser)
    assert (response.status_code, 'content="0; url=/account"' in response.text) == (200, True)
    assert "ada@bank.example, analyst" in browser.get("/account").text
    (form,) = provider.asked
    assert form["grant_type"] == "authorization_code"
    ada = people.find(console.database, ADA)
    assert ada
    assert ada.subject == f"{provider.issuer} 1234"
    assert [act.what for act in reversed(acts(console.database, most=2))] == [
        "linked an account to OpenID Connect",
        "signed in with OpenID Connect",
    ]


def test_the_request_has_state_nonce_and_a_challenge(browser: Browser) -> None:
    asked = []
    for _ in range(2):
        response = browser.get("/sign-in/openid")
        asked.append(
            {name: values[0] for name, values in parse_qs(urlsplit(response.headers["location"]).query).items()}
        )
        cookie = response.headers["set-cookie"].lower()
        assert all(part in cookie for part in ("unpooled-openid-7480=", "httponly", "samesite=lax", "max-age=600"))
    first, second = asked
    assert (first["response_type"], first["code_challenge_method"], first["client_id"]) == ("code", "S256", CLIENT)
    assert "openid" in first["scope"].split()
    for name in ("state", "nonce", "code_challenge"):
        assert len(first[name]) >= 20
        assert first[name] != second[name]


def test_the_subject_counts_from_then_on(browser: Browser, provider: OpenIdProvider, console: Console) -> None:
    assert sign_in(browser).status_code == 200
    provider.person |= {"email": "ada.byron@bank.example"}
    assert sign_in(browser).status_code == 200
    assert ADA in browser.get("/account").text
    provider.person |= {"sub": "5678", "email": ADA}
    stranger = Browser(browser.app)  # type: ignore[arg-type]
    response = sign_in(stranger)
    assert (response.status_code, "There is no account" in response.text) == (403, True)
    assert stranger.get("/account").status_code == 303
    assert acts(console.database, most=1)[0].what == "refused a sign-in"


@pytest.mark.parametrize("person", [{"email": "<b>nobody"}, {"email": ""}, {"email": ["ada"]}, {"sub": ""}])
def test_people_without_an_account_do_not_get_in(
    browser: Browser, provider: OpenIdProvider, person: dict[str, Any]
) -> None:
    provider.person |= person
    response = sign_in(browser)
    assert response.status_code == 403
    assert "<b>" not in response.text
    assert browser.get("/").status_code == 303


def test_disabled_people_do_not_get_in(browser: Browser, console: Console) -> None:
    assert sign_in(browser).status_code == 200
    people.disable(console.database, "root", ADA)
    assert browser.get("/").status_code == 303
    assert sign_in(browser).status_code == 403
    people.add(console.database, CHEAP, "root", "bo@bank.example", "viewer", None)
    people.disable(console.database, "root", "bo@bank.example")
    assert people.vouched_for(console.database, "other", "bo@bank.example") is None


def lie(**changes: Any) -> Callable[[OpenIdProvider], None]:
    def change(provider: OpenIdProvider) -> None:
        for name, value in changes.items():
            setattr(provider, name, value)

    return change


@pytest.mark.parametrize(
    "change",
    [
        lie(claims={"nonce": "another"}),
        lie(claims={"aud": "another"}),
        lie(claims={"aud": "another", "azp": CLIENT}),
        lie(claims={"aud": [CLIENT, "another"], "azp": "another"}),
        lie(claims={"iss": "http://127.0.0.1:1"}),
        lie(claims={"exp": int(time.time()) - 1_000}),
        lie(claims={"iat": int(time.time()) + 10_000}),
        lie(claims={"email_verified": False}),
        lie(claims={"email_verified": "true"}),
        lie(without={"nonce"}),
        lie(without={"sub"}),
        lie(without={"exp"}),
        lie(without={"email_verified"}),
        lie(without={"id_token"}),
        lie(algorithm="none"),
        lie(algorithm="HS256", key=shared_key()),
    ],
)
def test_an_answer_that_is_not_right_is_refused(
    browser: Browser, provider: OpenIdProvider, console: Console, change: Callable[[OpenIdProvider], None]
) -> None:
    change(provider)
    assert sign_in(browser).status_code == 403
    assert browser.get("/").status_code == 303
    ada = people.find(console.database, ADA)
    assert ada
    assert ada.subject is None


def test_a_token_of_another_key_is_refused_and_a_new_key_is_fetched(browser: Browser, provider: OpenIdProvider) -> None:
    assert sign_in(browser).status_code == 200
    published, provider.key = provider.key, other_key()
    assert sign_in(browser).status_code == 403
    provider.key = other_key("two")
    assert sign_in(browser).status_code == 403
    provider.published = [published, provider.key]
    assert sign_in(browser).status_code == 200


def test_an_answer_serves_once_and_in_the_browser_that_asked(browser: Browser) -> None:
    back = go_there(browser)
    thief = Browser(browser.app)  # type: ignore[arg-type]
    assert thief.get(back).status_code == 403
    go_there(thief)
    assert thief.get(back).status_code == 403
    assert browser.get(back).status_code == 200
    assert browser.get(back).status_code == 403


def test_a_wrong_state_or_an_error_is_refused(browser: Browser) -> None:
    code = parse_qs(urlsplit(go_there(browser)).query)["code"][0]
    assert browser.get("/sign-in/openid/back", params={"code": code, "state": "wrong"}).status_code == 403
    go_there(browser)
    response = browser.get("/sign-in/openid/back", params={"error": "access_denied", "error_description": "<b>no</b>"})
    assert (response.status_code, "<b>" in response.text) == (403, False)


def test_an_answer_that_comes_late_is_refused(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    back = go_there(browser)
    monkeypatch.setattr("unpooled.serve.console.openid._SECONDS", 0)
    assert browser.get(back).status_code == 403


def test_guessing_is_limited(browser: Browser) -> None:
    assert [browser.get("/sign-in/openid/back?code=x&state=y").status_code for _ in range(51)][-1] == 429


@pytest.mark.parametrize(
    "metadata", [{"issuer": "http://127.0.0.1:1"}, {"token_endpoint": "ftp://127.0.0.1/token"}, {"jwks_uri": ""}]
)
def test_a_provider_that_is_another_one_is_refused(
    browser: Browser, provider: OpenIdProvider, metadata: dict[str, str]
) -> None:
    provider.metadata = metadata
    response = browser.get("/sign-in/openid")
    assert (response.status_code, "not the one that the settings name" in response.text) == (502, True)
    provider.metadata = {}
    assert browser.get("/sign-in/openid").status_code == 302


def test_a_provider_that_does_not_answer(browser: Browser, provider: OpenIdProvider) -> None:
    provider.close()
    response = browser.get("/sign-in/openid")
    assert (response.status_code, "does not answer" in response.text) == (502, True)


def test_without_a_provider_there_is_nothing_there(console: Console) -> None:
    browser = Browser(make_app(console))
    for path in ("/sign-in/openid", "/sign-in/openid/back"):
        assert browser.get(path).status_code == 404


def test_settings_that_cannot_work_are_refused_at_the_start(browser: Browser, console: Console) -> None:
    (console.folder.root / "secret").unlink()
    with pytest.raises(InputError, match=r"secret: cannot be read"):
        make_app(console)
    with pytest.raises(ValueError, match="must begin with https"):
        SignIn.model_validate({"issuer": "http://login.example.org", "client": "x", "secret_file": "y"})


def test_people_are_added_without_a_password_if_there_is_a_provider(browser: Browser, console: Console) -> None:
    browser.sign_in("root")
    assert browser.submit("/people", name="cy@bank.example", role="viewer").status_code == 303
    assert "by OpenID Connect only" in browser.get("/people").text
    found = people.find(console.database, "cy@bank.example")
    assert found
    assert found.password is None

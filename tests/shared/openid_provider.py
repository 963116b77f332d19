"""A small OpenID Connect provider on this machine, which can be told to lie."""

import base64
import hashlib
import json
import secrets
import threading
import time
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

CLIENT, SECRET = "console", "the client secret"


class OpenIdProvider:
    """Vouches for `person` whenever a browser comes; `metadata`, `claims`, `key` and `algorithm` may be changed."""

    def __init__(self) -> None:
        self.key: Any = own_key()
        self.published: list[Any] = [self.key]
        self.algorithm = "RS256"
        self.person = {"sub": "1234", "email": "ada@bank.example", "email_verified": True}
        self.claims: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.without: set[str] = set()
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[dict[str, str]] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.get(self)

            def do_POST(self) -> None:
                provider.post(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def get(self, request: BaseHTTPRequestHandler) -> None:
        path = urlsplit(request.path)
        if path.path == "/.well-known/openid-configuration":
            _answer(request, self._metadata())
        elif path.path == "/keys":
            _answer(request, {"keys": [key.as_dict(private=False) for key in self.published]})
        else:
            query = {name: values[0] for name, values in parse_qs(path.query).items()}
            code = secrets.token_hex(8)
            self.codes[code] = query
            request.send_response(302)
            answer = urlencode({"code": code, "state": query["state"]})
            request.send_header("Location", f"{query['redirect_uri']}?{answer}")
            request.end_headers()

    def post(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        self.asked.append(form)
        asked = self.codes.pop(form["code"], None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=")
        client = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        right = (
            asked is not None
            and asked["code_challenge_method"] == "S256"
            and asked["code_challenge"] == challenge.decode()
            and asked["redirect_uri"] == form["redirect_uri"]
            and asked["client_id"] == CLIENT
            and request.headers["Authorization"] == f"Basic {client}"
        )
        if not right or asked is None:
            _answer(request, {"error": "invalid_grant"}, 400)
            return
        answer = {"access_token": "x", "token_type": "Bearer", "id_token": self._token(asked["nonce"])}
        _answer(request, {name: value for name, value in answer.items() if name not in self.without})

    def _token(self, nonce: str) -> str:
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": nonce, **self.person}
        claims |= self.claims
        claims = {name: value for name, value in claims.items() if name not in self.without}
        if self.algorithm == "none":
            parts = ({"alg": "none"}, claims)
            return (
                ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
                + "."
            )
        header = {"alg": self.algorithm} | ({"kid": self.key.kid} if self.key.kid else {})
        return jwt.encode(header, claims, self.key, algorithms=[self.algorithm])

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
            **self.metadata,
        }


@cache
def own_key() -> Any:
    """Made once, since that takes long."""
    return RSAKey.generate_key(2048, {"kid": "one"})


def other_key(name: str = "one") -> Any:
    return RSAKey.generate_key(2048, {"kid": name})


def shared_key() -> Any:
    return OctKey.import_key(SECRET)


def _answer(request: BaseHTTPRequestHandler, content: dict[str, Any], status: int = 200) -> None:
    body = json.dumps(content).encode()
    request.send_response(status)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)

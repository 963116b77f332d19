"""A browser without a window, for tests of the console."""

import re
from typing import Any

from argon2 import PasswordHasher
from fastapi import FastAPI
from starlette.testclient import TestClient

HERE = "http://127.0.0.1:7480"
PASSWORD = "correct horse battery"
CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


class Browser(TestClient):
    """Sends the Origin header as browsers do, and forms with the CSRF token of the page that was opened last."""

    def __init__(self, app: FastAPI, origin: str = HERE) -> None:
        super().__init__(
            app, base_url=origin, headers={"origin": origin}, follow_redirects=False, client=("127.0.0.1", 50_000)
        )

    def sign_in(self, name: str, password: str = PASSWORD) -> "Browser":
        response = self.post("/sign-in", data={"name": name, "password": password})
        assert response.status_code == 303, response.text
        return self

    @property
    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', self.get("/").text)
        assert found
        return found[1]

    def submit(self, path: str, **fields: object) -> Any:
        return self.post(path, data={"csrf": self.csrf, **fields})

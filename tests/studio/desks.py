"""What tests of the studio share: records, a client of the guarded application, what is asked for."""

import asyncio
import json

import httpx
import numpy as np

from curvedp import Ledger
from curvedp.studio import server
from curvedp.studio.access import SECRET_HEADER, TOKEN_HEADER

HOST = "http://127.0.0.1:8000"
STUDY = {"manifold": "sphere:2", "radius": 0.7, "guarantee": {"kind": "gdp", "mu": 0.5}}


def directions(n=60, seed=0):
    points = np.random.default_rng(seed).normal([3.0, 0, 0], 0.4, (n, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


class Browser:
    """A client of the guarded application, which keeps the secret as a tab does."""

    def __init__(self, desk):
        self.app, self.guard = server.guarded_application(lambda: desk, 8000)
        self.secret = None

    def __call__(self, method, path, headers=None, **more):
        async def once():
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url=HOST) as client:
                return await client.request(
                    method, path, headers={**self.headers(), **(headers or {})}, **more
                )

        return asyncio.run(once())

    def headers(self):
        return {} if self.secret is None else {SECRET_HEADER: self.secret}

    def enter(self, token=None):
        """Exchange a token for the secret, that of the link unless another is given."""
        if token is None:
            token = self.guard.link.partition("#")[2]
        answer = self("POST", "/enter", headers={TOKEN_HEADER: token})
        if answer.status_code == 200:
            self.secret = answer.json()["secret"]
        return answer

    def post(self, path, body):
        return self("POST", path, content=json.dumps(body))


def paid(desk):
    return len(Ledger(desk.ledger_path).entries)

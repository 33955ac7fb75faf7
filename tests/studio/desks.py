"""What tests of the studio share: records, a client of the guarded application, what is asked for."""

import asyncio
import json

import httpx
import numpy as np

from curvedp import Ledger
from curvedp.studio import server

HEADER = {"X-Curvedp": "studio"}
HOST = "http://127.0.0.1:8000"
STUDY = {"manifold": "sphere:2", "radius": 0.7, "guarantee": {"kind": "gdp", "mu": 0.5}}


def directions(n=60, seed=0):
    points = np.random.default_rng(seed).normal([3.0, 0, 0], 0.4, (n, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


class Browser:
    """A client of the guarded application, with a cookie jar of its own."""

    def __init__(self, desk, token="secret"):
        self.app = server.Guard(server.application(lambda: desk), 8000, token)
        self.cookies = httpx.Cookies()

    def __call__(self, method, path, **more):
        async def once():
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(
                transport=transport, base_url=HOST, cookies=self.cookies
            ) as client:
                answer = await client.request(method, path, **more)
                self.cookies.update(client.cookies)
                return answer

        return asyncio.run(once())

    def post(self, path, body, headers=HEADER):
        return self("POST", path, content=json.dumps(body), headers=headers)


def paid(desk):
    return len(Ledger(desk.ledger_path).entries)

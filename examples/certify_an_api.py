"""Certify a service that is asked over HTTP, here one on this machine that is sometimes busy: python examples/certify_an_api.py

The function below is all that is needed of a service: a batch in, a label or logits for every row out. `recert.Remote` says how it is
asked. Nothing is sent but the rows that are needed and about one in a hundred more, which show that the answers can be relied on.
"""

import itertools
import json
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import torch

import recert

CLASSES, SIGMA = 3, 0.5
rng = np.random.default_rng(0)
centres = rng.normal(size=(CLASSES, 8))
labels = rng.integers(0, CLASSES, 20)
inputs = (centres[labels] + 0.2 * rng.normal(size=(20, 8))).astype(np.float32)
asked = itertools.count(1)


class Service(BaseHTTPRequestHandler):
    """Stands for the service: the nearest centre of every row. One request in twenty finds it busy. `/v2` is its next version."""

    def do_POST(self) -> None:
        rows = np.array(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        busy = next(asked) % 20 == 0
        moved = centres + (0.1 if self.path == "/v2" else 0.0)
        answer = ((rows[:, None] - moved) ** 2).sum(axis=2).argmin(axis=1).tolist()
        self.send_response(503 if busy else 200)
        self.end_headers()
        self.wfile.write(json.dumps([] if busy else answer).encode())

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
threading.Thread(target=server.serve_forever, daemon=True).start()


def service(version: str) -> recert.Remote:
    """A service as a function from a batch to labels. A 503 is raised by urllib, and the request sent again."""

    def ask(batch: torch.Tensor) -> np.ndarray:
        url, body = f"http://127.0.0.1:{server.server_port}/{version}", json.dumps(batch.tolist()).encode()
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=30) as answer:
            return np.array(json.loads(answer.read()))

    return recert.Remote(ask, retries=5, in_flight=4, batch_size=64, wait=0.05)


print(f"before: {recert.bill(service('v1'), inputs, samples=1_000)}")
cache = recert.certify(
    service("v1"), inputs, noise=recert.Gaussian(SIGMA), samples=1_000, classes=CLASSES, identity="nearest-v1"
)
print(
    f"after: {cache.rows_sent:,} rows sent; average certified radius {cache.certificates.average_certified_radius(labels):.3f}"
)

result = recert.recertify(service("v2"), inputs, cache, samples=100, identity="nearest-v2")
print(f"version 2: {result.settings.rows_sent:,} rows sent; ", end="")
print(f"average certified radius {result.average_certified_radius(labels):.3f}")
server.shutdown()

"""A smoothed classifier behind HTTP: python examples/http_server.py [PORT]   (needs the extras demo and serve)

POST /predict {"input": [[[...]]], "radius": true} gives {"class": 3, "radius": 0.41}; the class is null where it abstains. Requests
that wait at the same time are answered in one batch. Without a port it asks itself a few questions, and says how fast it answered.
"""

import asyncio
import json
import sys
import time

import numpy as np
from tornado.httpclient import AsyncHTTPClient
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler

import recert
from recert.data import load_data

SHAPE, TOGETHER = (1, 8, 8), 16
smoothed = recert.Smoothed(recert.load_model("digits").model, recert.Gaussian(0.5), samples=200, alpha=0.001)
waiting: "asyncio.Queue[tuple[np.ndarray, bool, asyncio.Future]]" = asyncio.Queue()


class Predict(RequestHandler):
    async def post(self) -> None:
        try:
            asked = json.loads(self.request.body)
            image, radius = np.array(asked["input"], dtype=np.float32), bool(asked.get("radius", False))
        except (ValueError, TypeError, KeyError):
            raise HTTPError(400) from None
        if image.shape != SHAPE or not np.isfinite(image).all():
            raise HTTPError(400)
        answer = asyncio.get_running_loop().create_future()
        await waiting.put((image, radius, answer))
        self.write(await answer)


async def answer_all() -> None:
    """Takes what is waiting, up to a batch, and answers it in a thread, so that others can arrive meanwhile."""
    while True:
        asked = [await waiting.get()]
        while len(asked) < TOGETHER and not waiting.empty():
            asked.append(waiting.get_nowait())
        for radius in {radius for _, radius, _ in asked}:
            mine = [(image, answer) for image, wanted, answer in asked if wanted == radius]
            images = np.stack([image for image, _ in mine])
            found = await asyncio.to_thread(smoothed.answers, images, radius=radius)
            for row, (_, answer) in enumerate(mine):
                said = {"class": int(found.prediction[row]) if found.prediction[row] >= 0 else None}
                answer.set_result({**said, "radius": float(found.radius[row])} if radius else said)


async def try_it(port: int) -> None:
    client, digits = AsyncHTTPClient(max_clients=TOGETHER), load_data("digits", count=64)

    async def ask(image: np.ndarray, radius: bool) -> dict:
        body = json.dumps({"input": image.tolist(), "radius": radius})
        return json.loads((await client.fetch(f"http://127.0.0.1:{port}/predict", method="POST", body=body)).body)

    print("with a radius:", json.dumps(await ask(digits.inputs[0], True)))
    for together in (1, TOGETHER):
        started, right = time.perf_counter(), 0
        for first in range(0, len(digits), together):
            rows = range(first, first + together)
            answers = await asyncio.gather(*(ask(digits.inputs[row], False) for row in rows))
            right += sum(each["class"] == digits.labels[row] for each, row in zip(answers, rows, strict=True))
        pace = len(digits) / (time.perf_counter() - started)
        print(f"{together} at a time: {pace:.0f} requests per second, {right} of {len(digits)} right")


async def main() -> None:
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    sockets = bind_sockets(port, "127.0.0.1")
    server = HTTPServer(Application([("/predict", Predict)]), max_body_size=100_000)
    server.add_sockets(sockets)
    answering = asyncio.create_task(answer_all())
    if port:
        await answering
    await try_it(sockets[0].getsockname()[1])
    answering.cancel()


if __name__ == "__main__":
    asyncio.run(main())

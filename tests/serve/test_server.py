"""The server as its clients see it, on a tiny model without a tokenizer: tokens come and go as numbers."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.language import files

import tensorsmith as ts
from tensorsmith.language.generator import Generator
from tensorsmith.serve.server import Limits, Server

PROMPT = [5, 17, 3]


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> Generator:
    return ts.compile(ts.load(files.folder(tmp_path_factory.mktemp("models") / "tiny")))


@pytest.fixture
def server(lm: Generator) -> Iterator[Server]:
    yield from running(Server(lm, port=0, limits=Limits(request_bytes=2000, waiting=8)))


@pytest.fixture
def closed(lm: Generator) -> Iterator[Server]:
    yield from running(Server(lm, port=0, token="secret"))


def running(server: Server) -> Iterator[Server]:
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def asked(server: Server, body: Any, path: str = "/v1/completions", **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", path, data, {"Content-Type": "application/json", **headers})
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def order(**more: Any) -> dict[str, Any]:
    return {"prompt": PROMPT, "max_tokens": 8, "temperature": 0, "ignore_eos": True, **more}


def test_a_completion_is_what_the_model_generates(server: Server, lm: Generator) -> None:
    status, answer = asked(server, order(logprobs=1))
    assert status == 200
    assert answer["object"] == "text_completion"
    assert answer["choices"][0]["tokens"] == lm.generate(PROMPT, max_new_tokens=8, ignore_end=True)
    assert answer["choices"][0]["finish_reason"] == "length"
    assert len(answer["choices"][0]["logprobs"]["token_logprobs"]) == 8
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 8, "total_tokens": 11}


def test_a_connection_serves_one_request_after_the_other(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    for _ in range(2):
        connection.request("POST", "/v1/completions", json.dumps(order()), {"Content-Type": "application/json"})
        assert json.loads(connection.getresponse().read())["usage"]["completion_tokens"] == 8
    connection.request("GET", "/v1/models")
    assert [m["id"] for m in json.loads(connection.getresponse().read())["data"]] == ["tiny"]


def test_a_stream_ends_with_its_reason_and_done(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    body = json.dumps(order(stream=True, stream_options={"include_usage": True}))
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert response.headers["Content-Type"] == "text/event-stream"
    events = [line.removeprefix("data: ") for line in response.read().decode().split("\n\n") if line]
    assert events[-1] == "[DONE]"
    pieces = [json.loads(e) for e in events[:-1]]
    assert len({p["id"] for p in pieces}) == 1
    assert pieces[-2]["choices"][0]["finish_reason"] == "length"
    assert pieces[-1]["usage"]["completion_tokens"] == 8


def test_clients_at_once_get_each_their_own(server: Server, lm: Generator) -> None:
    prompts = [[n, n + 1, 7] for n in range(8)]
    wanted = [lm.generate(p, max_new_tokens=12, ignore_end=True) for p in prompts]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda p: asked(server, order(prompt=p, max_tokens=12)), prompts))
    assert [a["choices"][0]["tokens"] for _, a in answers] == wanted


def test_more_than_may_wait_are_refused(server: Server) -> None:
    """Eight texts fit into the queue, and then no ninth, however fast they are written: all of a request come in or none."""
    status, answer = asked(server, order(prompt=[PROMPT] * 8))
    assert status == 200
    assert len(answer["choices"]) == 8
    server.engine.waiting = 7
    status, answer = asked(server, order(prompt=[PROMPT] * 8))
    assert status == 429
    assert "too many" in answer["error"]["message"]


def test_a_client_that_goes_away_harms_nobody(server: Server) -> None:
    """Its text is not written to its end, and the next one is served."""
    long = json.dumps(order(max_tokens=120, stream=True)).encode()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(long)}\r\n\r\n"
    )
    for data in (head.encode() + long, head.encode() + long[:10], head.encode()[:20], b"\x16\x03\x01\x00nonsense\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.server_port)) as client:
            client.sendall(data)
    assert asked(server, order())[0] == 200


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"no json", 400, "no JSON"),
        (b"[" * 1500, 400, "no JSON"),
        (b"[1]", 400, "no JSON object"),
        (b" " * 2001, 413, "2000 are the most"),
        ({"max_tokens": 1}, 400, "prompt has to be"),
        (order(prompt="text"), 400, "tokenizer"),
        (order(prompt=[]), 400, "no token"),
        (order(prompt=[96]), 400, "tokens are numbers from 0 to 95"),
        (order(prompt=[1] * 128), 400, "looks back on 128"),
        (order(max_tokens=0), 400, "max_tokens is 0"),
        (order(temperature="hot"), 400, "temperature is 'hot'"),
        (order(n=9), 400, "n is 9"),
        (order(prompt=[[1]] * 5, n=2), 400, "asks for 10 texts"),
        (order(echo=True), 400, "echo is not supported"),
        (order(stop=[{}]), 400, "stop has {}"),
        (order(seed=-1), 400, "seed is -1"),
    ],
)
def test_what_is_wrong_is_said(server: Server, body: Any, status: int, words: str) -> None:
    given, answer = asked(server, body)
    assert given == status
    assert words in answer["error"]["message"]


def test_requests_of_other_sites_are_refused(server: Server) -> None:
    assert asked(server, order(), Host="evil.example")[0] == 403
    assert asked(server, order(), Host=f"localhost:{server.server_port}")[0] == 200
    assert asked(server, order(), **{"Content-Type": "text/plain"})[0] == 415
    assert asked(server, order(), "/v1/embeddings")[0] == 404


def test_a_token_is_asked_for(closed: Server, lm: Generator) -> None:
    assert asked(closed, order())[0] == 401
    assert asked(closed, order(), Authorization="Bearer wrong")[0] == 401
    assert asked(closed, order(), Authorization="Bearer secret")[0] == 200
    with pytest.raises(ts.UserError, match="give a token"):
        Server(lm, host="0.0.0.0", port=0)


def test_chats_need_a_template(server: Server) -> None:
    status, answer = asked(server, {"messages": [{"role": "user", "content": "hello"}]}, "/v1/chat/completions")
    assert status == 400
    assert "no chat template" in answer["error"]["message"]


def test_who_waits_when_it_closes_is_told(lm: Generator, tmp_path: Path) -> None:
    server = Server(lm, port=0)
    server.server_close()
    with pytest.raises(Exception, match=r"^$"):
        server.engine.submit([])

"""Connections: who may ask, how much, and what becomes of those who go away.

Loopback unless told otherwise, and then only with a token. A request that comes by way of a browser from another site is refused:
its Host is not ours, or its content is no JSON.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import queue
import select
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tensorsmith.errors import UserError
from tensorsmith.language.generator import Generator
from tensorsmith.serve.answers import Answer
from tensorsmith.serve.engine import Busy, Engine, Ticket
from tensorsmith.serve.requests import wanted

_PATIENCE = 0.5  # seconds between two looks whether a client that waits is still there
_IDLE = 30.0  # seconds that a client may take for the bytes of a request, and for taking those of an answer
_NAMES = ("localhost", "127.0.0.1", "::1", "[::1]")


@dataclass(frozen=True)
class Limits:
    """How much is taken on: bytes of a request, connections at once, and orders that wait."""

    request_bytes: int = 1 << 20
    connections: int = 64
    waiting: int = 64


class Server(ThreadingHTTPServer):
    """Answers until `shutdown`. `port` 0 takes one that is free; `server_port` says which."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self, lm: Generator, host: str = "127.0.0.1", port: int = 8080, token: str | None = None, limits: Limits | None = None
    ) -> None:
        self.limits = limits or Limits()
        self.loopback = _is_loopback(host)
        if not self.loopback and not token:
            raise UserError(f"whoever reaches {host} could use the model: give a token that clients have to send")
        if token is not None and not token.isascii():
            raise UserError("the token has to be of ASCII characters, as it is sent in a header")
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.token, self.lm = token, lm
        self._free = threading.BoundedSemaphore(self.limits.connections)
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as problem:
            raise UserError(f"cannot listen on {host} port {port}: {problem}") from problem
        self.engine = Engine(lm, self.limits.waiting)

    def process_request(self, request: Any, address: Any) -> None:
        """A thread for each connection, as long as there are few."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, address)

    def process_request_thread(self, request: Any, address: Any) -> None:
        try:
            super().process_request_thread(request, address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, address: Any) -> None:
        """Clients that go away are nobody's fault."""

    def server_close(self) -> None:
        super().server_close()
        self.engine.close()


class _Failed(Exception):
    """An answer with a status that says what is wrong."""

    def __init__(self, status: int, message: str, kind: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "tensorsmith", ""
    timeout = _IDLE

    def log_message(self, format: str, *args: Any) -> None:
        """What is asked is nobody else's business."""

    def do_GET(self) -> None:
        self._guarded(self._get)

    def do_POST(self) -> None:
        self._guarded(self._post)

    def _guarded(self, answer: Any) -> None:
        try:
            self._check_access()
            answer()
        except _Failed as problem:
            self._fail(problem.status, str(problem), problem.kind)
        except UserError as problem:
            self._fail(400, str(problem))
        except Busy:
            self._fail(429, "too many requests wait already; try again later", "rate_limit_error")
        except OSError:  # the client has gone, or takes nothing any more
            self.close_connection = True

    def _fail(self, status: int, message: str, kind: str = "invalid_request_error") -> None:
        self.close_connection = True  # what is left of the request was not read
        self._send(status, {"error": {"message": message, "type": kind, "param": None, "code": None}})

    def _check_access(self) -> None:
        host = self.headers.get("Host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if self.server.loopback and name.lower() not in _NAMES:
            raise _Failed(403, f"this server is called localhost, not {name!r}", "permission_error")
        token = self.server.token
        if token is not None:
            given = self.headers.get("Authorization", "").removeprefix("Bearer ").encode("utf-8", "replace")
            if not hmac.compare_digest(given, token.encode()):
                raise _Failed(401, "the token is missing or wrong: send Authorization: Bearer TOKEN", "authentication_error")

    def _get(self) -> None:
        name = self.server.lm.model.name
        path = self.path.partition("?")[0]
        if path == "/v1/models":
            self._send(200, {"object": "list", "data": [_about(name)]})
        elif path == "/health":
            waiting, writing = self.server.engine.load
            self._send(200, {"status": "ok", "waiting": waiting, "writing": writing})
        else:
            raise _Failed(404, "there is GET /v1/models, POST /v1/completions and POST /v1/chat/completions", "not_found_error")

    def _post(self) -> None:
        path = self.path.partition("?")[0]
        if path not in ("/v1/completions", "/v1/chat/completions"):
            raise _Failed(404, "there is POST /v1/completions and POST /v1/chat/completions", "not_found_error")
        asked = wanted(self.server.lm, self._body(), path == "/v1/chat/completions")
        answer, tickets = Answer(self.server.lm, asked), self.server.engine.submit(asked.orders)
        try:
            if asked.stream:
                self._stream(answer, tickets)
                return
            for _ in self._pieces(tickets):
                pass
            self._send(200, answer.whole(tickets))
        finally:
            for ticket in tickets:
                ticket.cancel()

    def _body(self) -> dict[str, Any]:
        if self.headers.get_content_type() != "application/json":
            raise _Failed(415, "the request has to be application/json")
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit():
            raise _Failed(411, "the request has to say its Content-Length")
        if len(length) > 18 or int(length) > self.server.limits.request_bytes:
            raise _Failed(413, f"the request has {length[:18]} bytes; {self.server.limits.request_bytes} are the most")
        data = self.rfile.read(int(length))
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as problem:
            raise _Failed(400, f"the request is no JSON: {problem}") from problem
        if not isinstance(found, dict):
            raise _Failed(400, "the request is no JSON object")
        return found

    def _pieces(self, tickets: list[Ticket]) -> Iterator[tuple[int, str]]:
        """Pieces of all texts with their numbers, each text's until it ends; (-1, "") now and then while none comes."""
        left = dict(enumerate(tickets))
        while left:
            came = False
            for number, ticket in list(left.items()):
                try:
                    piece = ticket.events.get(timeout=_PATIENCE / len(left)) if not came else ticket.events.get_nowait()
                except queue.Empty:
                    continue
                came = True
                if piece is None:
                    del left[number]
                    if ticket.failed is not None:
                        raise ticket.failed
                else:
                    yield number, piece
            if not came:
                self._check_client()
                yield -1, ""

    def _check_client(self) -> None:
        """Raises `OSError` if the client has gone: its side of the connection is closed."""
        if select.select([self.connection], [], [], 0)[0] and not self.connection.recv(1, socket.MSG_PEEK):
            raise ConnectionResetError

    def _stream(self, answer: Answer, tickets: list[Ticket]) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        begun: set[int] = set()
        try:
            for number, piece in self._pieces(tickets):
                if number >= 0 and (piece or number not in begun):
                    self._event(answer.piece(number, piece, number not in begun, None))
                    begun.add(number)
            for number, ticket in enumerate(tickets):
                ended = ticket.writing.ended_by if ticket.writing is not None else None
                self._event(answer.piece(number, "", number not in begun, ended))
            if answer.asked.usage_at_end:
                self._event(answer.last(tickets))
        except UserError as problem:
            self._event({"error": {"message": str(problem), "type": "server_error", "param": None, "code": None}})
        self._line(b"data: [DONE]\n\n")

    def _event(self, data: dict[str, Any]) -> None:
        self._line(b"data: " + json.dumps(data).encode() + b"\n\n")

    def _line(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def _send(self, status: int, data: dict[str, Any]) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close" if self.close_connection else "keep-alive")
        self.end_headers()
        self.wfile.write(body)


def _about(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "local"}


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

"""One thread computes for all: texts that are wanted at the same time are written on side by side, a token each in every step."""

from __future__ import annotations

import collections
import queue
import threading
from dataclasses import dataclass, field

from tensorsmith.errors import UserError
from tensorsmith.language.generator import Generator
from tensorsmith.language.programs import BATCHES
from tensorsmith.language.writing import Order, Writing


class Busy(Exception):
    """The queue is full."""


@dataclass
class Ticket:
    """An order that waits or is being written. Its events are pieces of text, then None; then look at `failed` and `writing`."""

    order: Order
    text: bool
    number: int = 0
    events: queue.SimpleQueue[str | None] = field(default_factory=queue.SimpleQueue)
    writing: Writing | None = None
    failed: UserError | None = None
    cancelled: bool = False

    def cancel(self) -> None:
        """Nobody waits for it any more: it is left as it is, before its next token."""
        self.cancelled = True


class Engine:
    """Takes orders, up to `waiting` of them in its queue, and writes up to `together` at once."""

    def __init__(self, lm: Generator, waiting: int = 64, together: int = BATCHES[-1]) -> None:
        self.lm, self.waiting, self.together = lm, waiting, together
        self._queue: collections.deque[Ticket] = collections.deque()
        self._writing: list[Ticket] = []
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="tensorsmith-serve", daemon=True)
        self._thread.start()

    def submit(self, orders: list[tuple[Order, bool]]) -> list[Ticket]:
        """A ticket for each order, or `Busy` and none of them."""
        tickets = [Ticket(order, text, n) for n, (order, text) in enumerate(orders)]
        with self._changed:
            if self._closed or len(self._queue) + len(tickets) > self.waiting:
                raise Busy
            self._queue += tickets
            self._changed.notify()
        return tickets

    @property
    def load(self) -> tuple[int, int]:
        """How many wait, and how many are being written."""
        with self._changed:
            return len(self._queue), len(self._writing)

    def close(self) -> None:
        """Ends the thread; who still waits is told."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._writing and not self._closed:
                    self._changed.wait()
                left = [*self._writing, *self._queue] if self._closed else []
                ticket = self._queue.popleft() if self._queue and len(self._writing) < self.together else None
            if self._closed:
                for one in left:
                    self._end(one, UserError("the server is closing"))
                return
            if ticket is not None:
                self._begin(ticket)
            self._advance()

    def _begin(self, ticket: Ticket) -> None:
        if ticket.cancelled:
            self._end(ticket)
            return
        try:
            ticket.writing = self.lm.writing(ticket.order, ticket.number, ticket.text, reuse=True)
            piece = ticket.writing.take(self.lm.begun(ticket.writing))
        except Exception as problem:  # of this order alone
            self._end(ticket, _told(problem))
            return
        with self._changed:
            self._writing.append(ticket)
        self._given(ticket, piece)

    def _advance(self) -> None:
        for ticket in [t for t in self._writing if t.cancelled]:
            self._end(ticket)
        going = {id(t.writing): t for t in self._writing}
        if not going:
            return
        writings = [t.writing for t in self._writing if t.writing is not None]
        try:
            pieces = self.lm.advanced(writings)
        except Exception as problem:  # whose it is cannot be told
            for ticket in list(self._writing):
                self._end(ticket, _told(problem))
            return
        for writing, piece in pieces:
            self._given(going[id(writing)], piece)

    def _given(self, ticket: Ticket, piece: str) -> None:
        ticket.events.put(piece)
        if ticket.writing is not None and ticket.writing.ended_by is not None:
            self._end(ticket)

    def _end(self, ticket: Ticket, failed: UserError | None = None) -> None:
        with self._changed:
            self._writing = [t for t in self._writing if t is not ticket]
        if ticket.writing is not None and failed is None:
            self.lm.keep(ticket.writing.state)
        ticket.failed = failed
        ticket.events.put(None)


def _told(problem: Exception) -> UserError:
    return problem if isinstance(problem, UserError) else UserError(f"it failed: {type(problem).__name__}: {problem}")

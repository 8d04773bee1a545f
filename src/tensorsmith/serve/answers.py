"""What came of a request, as JSON in the form of OpenAI's completions and chats, whole or in pieces."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Any

from tensorsmith.language.generator import Generator
from tensorsmith.language.writing import Completion
from tensorsmith.serve.engine import Ticket
from tensorsmith.serve.requests import Wanted


class Answer:
    """One answer: its number and time are the same in all of its pieces."""

    def __init__(self, lm: Generator, asked: Wanted) -> None:
        self.lm, self.asked = lm, asked
        self.id = f"{'chatcmpl' if asked.chat else 'cmpl'}-{uuid.uuid4().hex}"
        self.created = int(time.time())

    def whole(self, tickets: Sequence[Ticket]) -> dict[str, Any]:
        """All texts, when they are written."""
        choices = [self._choice(n, _completion(t)) for n, t in enumerate(tickets)]
        return {
            **self._head("chat.completion" if self.asked.chat else "text_completion"),
            "choices": choices,
            **self._usage(tickets),
        }

    def piece(self, number: int, text: str, first: bool, ended_by: str | None) -> dict[str, Any]:
        """A piece of one text."""
        choice: dict[str, Any] = {"index": number, "logprobs": None, "finish_reason": ended_by}
        if self.asked.chat:
            choice["delta"] = ({"role": "assistant"} if first else {}) | ({"content": text} if text or first else {})
        else:
            choice["text"] = text
        return {**self._head("chat.completion.chunk" if self.asked.chat else "text_completion"), "choices": [choice]}

    def last(self, tickets: Sequence[Ticket]) -> dict[str, Any]:
        """The piece behind all texts that says how many tokens there were."""
        return {
            **self._head("chat.completion.chunk" if self.asked.chat else "text_completion"),
            "choices": [],
            **self._usage(tickets),
        }

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.lm.model.name}

    def _choice(self, number: int, done: Completion) -> dict[str, Any]:
        text, choice = done.text or "", {"index": number, "finish_reason": done.ended_by, "logprobs": self._log_probabilities(done)}
        if self.asked.chat:
            return {**choice, "message": {"role": "assistant", "content": text}}
        return {**choice, "text": text, "tokens": done.tokens}

    def _log_probabilities(self, done: Completion) -> dict[str, Any] | None:
        if not self.asked.log_probabilities:
            return None
        names = [self.lm.tokenizer.text_of(t) if self.lm.has_tokenizer else str(t) for t in done.tokens]
        if self.asked.chat:
            return {"content": [{"token": n, "logprob": p, "top_logprobs": []} for n, p in zip(names, done.log_probabilities)]}
        return {"tokens": names, "token_logprobs": done.log_probabilities, "top_logprobs": None}

    def _usage(self, tickets: Sequence[Ticket]) -> dict[str, Any]:
        prompts = {t.order.prompt for t in tickets}
        before, new = sum(map(len, prompts)), sum(len(t.writing.new) for t in tickets if t.writing is not None)
        return {"usage": {"prompt_tokens": before, "completion_tokens": new, "total_tokens": before + new}}


def _completion(ticket: Ticket) -> Completion:
    assert ticket.writing is not None
    return ticket.writing.completion

"""`tensorsmith generate`: text behind a prompt. `tensorsmith serve`: the same for other programs."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tensorsmith.cli import show
from tensorsmith.cli.options import AsJson, Records, Threads
from tensorsmith.compile import compile
from tensorsmith.errors import UserError
from tensorsmith.frontends.load import is_language_model, load
from tensorsmith.show.line import page

if TYPE_CHECKING:  # loaded by the commands that need it: other commands start faster
    from tensorsmith.language.generator import Generator

LanguageModelFile = Annotated[
    str, typer.Argument(metavar="MODEL", help="A language model: a GGUF file, or a folder with config.json and safetensors files.")
]
Weights = Annotated[
    str | None,
    typer.Option(metavar="TYPE", help="Store matrices as f32, f16, bf16, int8, q8_0 or q4_0.", show_default="as the file has them"),
]


@dataclass(frozen=True)
class Generated:
    """What was written, and how long it took: the prompt and the first token, and each token behind it. Compiling counts where a
    size of step comes for the first time."""

    model: str
    prompt_tokens: int
    tokens: list[int]
    text: str | None
    ended_by: str
    loading_seconds: float
    first_token_seconds: float
    tokens_per_second: float | None


def generate(
    file: LanguageModelFile,
    prompt: Annotated[str | None, typer.Option("-p", "--prompt", metavar="TEXT", help="What to write on from.")] = None,
    ids: Annotated[
        str | None, typer.Option("--ids", metavar="N,N,...", help="The prompt as numbers of tokens; numbers come back.")
    ] = None,
    max_new_tokens: Annotated[int, typer.Option("-n", "--max-new-tokens", metavar="N", help="How many tokens at most.")] = 128,
    temperature: Annotated[float, typer.Option(help="0 takes the most likely token each time.")] = 0.0,
    top_k: Annotated[int | None, typer.Option(metavar="N", help="Draw from the N most likely tokens.")] = None,
    top_p: Annotated[float, typer.Option(help="Draw from the fewest tokens that have this much of the probability.")] = 1.0,
    min_p: Annotated[float, typer.Option(help="Draw from tokens with this much of the most likely one's probability.")] = 0.0,
    repetition_penalty: Annotated[float, typer.Option(help="Above 1, tokens that were there become less likely.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of what is drawn.")] = 0,
    stop: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Ends where this comes. May be given several times.")
    ] = None,
    ignore_end: Annotated[bool, typer.Option("--ignore-end", help="Goes on behind the model's own end.")] = False,
    weights: Weights = None,
    db: Records = None,
    threads: Threads = None,
    json: AsJson = False,
) -> None:
    """Writes on from a prompt with a language model, and shows the text as it comes."""
    if (prompt is None) == (ids is None):
        raise UserError("give a prompt, -p TEXT, or its tokens, --ids N,N,...")
    given = prompt if prompt is not None else _numbers(ids or "")
    with show.apart(json):
        begin = time.perf_counter()
        lm = _compiled(file, weights, db, threads)
        settings = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed}
        settings |= {"max_new_tokens": max_new_tokens, "repetition_penalty": repetition_penalty, "ignore_end": ignore_end}
        (writing,) = lm.writings([given], stop=tuple(stop or ()), **settings)  # type: ignore[arg-type]
        loaded, times = time.perf_counter(), []
        for count, (_, piece) in enumerate(lm.written([writing])):
            times.append(time.perf_counter())
            if not json:
                last = writing.new[-1:] if len(writing.new) > count else []
                print(page(piece) if prompt is not None else "".join(f"{t} " for t in last), end="", flush=True)
        done = writing.completion
        first, rest = times[0] - loaded, times[-1] - times[0]
        rate = (len(times) - 1) / rest if rest > 0 else None
        found = Generated(
            lm.model.name, len(writing.order.prompt), done.tokens, done.text, done.ended_by, loaded - begin, first, rate
        )
    if not json:
        print(flush=True)
    show.answer(found, json, _show)


def serve(
    file: LanguageModelFile,
    host: Annotated[str, typer.Option(help="Where to listen. Anything but this machine itself needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes one that is free.")] = 8080,
    token_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A file with the token that clients have to send.", show_default="none is needed"),
    ] = None,
    waiting: Annotated[int, typer.Option(metavar="N", help="How many requests may wait; more are refused.")] = 64,
    request_bytes: Annotated[int, typer.Option(metavar="N", help="How large a request may be.")] = 1 << 20,
    weights: Weights = None,
    db: Records = None,
    threads: Threads = None,
) -> None:
    """Serves a language model over HTTP, as OpenAI's completions and chats: /v1/completions, /v1/chat/completions, /v1/models."""
    token = _token(token_file) if token_file is not None else None
    lm = _compiled(file, weights, db, threads)
    from tensorsmith.serve.server import Limits, Server

    server = Server(lm, host, port, token, Limits(request_bytes=request_bytes, waiting=waiting))
    shown = f"[{host}]" if ":" in host else host
    show.say(f"{lm.model.name} is at http://{shown}:{server.server_port}/v1; Ctrl-C ends it")
    try:
        server.serve_forever()
    finally:
        server.server_close()


def _compiled(file: str, weights: str | None, db: str | None, threads: int | None) -> Generator:
    path = Path(file)
    if not path.exists():
        raise UserError(f"there is no {file}")
    model = load(path) if is_language_model(path) else None
    from tensorsmith.language.model import LanguageModel

    if not isinstance(model, LanguageModel):
        raise UserError(f"{file} is no language model: give a GGUF file, or a folder with config.json and safetensors files")
    return compile(model, weights=weights, database=db, threads=threads)


def _token(file: str) -> str:
    try:
        found = Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise UserError(f"cannot read the token in {file}: {problem}") from problem
    if not found:
        raise UserError(f"{file} has no token in it")
    return found


def _numbers(given: str) -> list[int]:
    if not re.fullmatch(r"\s*\d{1,18}(\s*[\s,]\s*\d{1,18})*\s*", given):
        raise UserError(f"--ids is {given!r}; give numbers with commas between them")
    return [int(n) for n in re.findall(r"\d+", given)]


def _show(found: Generated) -> None:
    rate = "-" if found.tokens_per_second is None else f"{found.tokens_per_second:.1f}"
    show.warn(
        f"{found.prompt_tokens} tokens read, the first written in {found.first_token_seconds:.2f} s, {len(found.tokens)} in all, "
        f"{rate} a second; loaded in {found.loading_seconds:.2f} s; ended by its {found.ended_by}"
    )

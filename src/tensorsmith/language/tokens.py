"""Text to tokens and back, by the package `tokenizers`; without it, models take and give numbers of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorsmith.errors import UserError, install
from tensorsmith.language.gguf import GgufFile

if TYPE_CHECKING:
    from tokenizers import Tokenizer

EXTRA = "generation"
_CONTROL, _USER = 3, 4  # kinds of tokens in GGUF files: both are found in a text before it is split

_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

#: the expressions that cut a text into words, by the name that a GGUF file gives; GPT-2's is the package's own
_SPLITS: dict[str, tuple[str, ...]] = {
    "llama-bpe": (rf"{_SHORT}|{_WORDS}|\p{{N}}{{1,3}}|{_REST}",),
    "qwen2": (rf"{_SHORT}|{_WORDS}|\p{{N}}|{_REST}",),
    "smollm": (r"\p{N}",),
    "gpt-2": (),
}
_ALIASES = {"llama3": "llama-bpe", "llama-v3": "llama-bpe", "default": "gpt-2", "": "gpt-2"}
_OF_GPT2 = ("gpt-2", "smollm")  # what these cut is cut once more as GPT-2 does


class Tokens:
    """A tokenizer with what a model wants in front of a text."""

    def __init__(self, tokenizer: Tokenizer, first: int | None = None) -> None:
        self.tokenizer, self.first = tokenizer, first

    def encode(self, text: str, special: bool = True) -> list[int]:
        """The tokens of a text; with `special` those that a model wants around it."""
        found = [int(n) for n in self.tokenizer.encode(text, add_special_tokens=special).ids]
        if special and self.first is not None and found[:1] != [self.first]:
            found.insert(0, self.first)
        return found

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of some tokens, without those that stand for no text."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))

    def text_of(self, token: int) -> str:
        """What a token is called in the vocabulary."""
        return str(self.tokenizer.id_to_token(token) or "")


def tokens_of_folder(folder: Path) -> Tokens:
    """The tokenizer of `tokenizer.json`."""
    package = _package()
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise UserError(f"{folder} has no tokenizer.json: give numbers of tokens instead of a text")
    try:
        return Tokens(package.Tokenizer.from_file(str(path)))
    except Exception as problem:  # the package raises plain Exception
        raise UserError(f"cannot read {path}: {problem}") from problem


def tokens_of_gguf(file: GgufFile) -> Tokens:
    """The tokenizer inside of a GGUF file."""
    package = _package()
    values = {key.removeprefix("tokenizer.ggml."): v for key, v in file.metadata.items() if key.startswith("tokenizer.ggml.")}
    kind, names = values.get("model"), values.get("tokens", [])
    if kind not in ("gpt2", "llama") or not _strings(names):
        what = "no tokenizer" if kind is None else f"a tokenizer of the kind {kind!r}; gpt2 and llama are read"
        raise UserError(f"{file.path} has {what}: give numbers of tokens instead of a text")
    try:
        tokenizer = _byte_pairs(values, str(file.path)) if kind == "gpt2" else _sentence_pieces(values, str(file.path))
    except UserError:
        raise
    except Exception as problem:  # as above
        raise UserError(f"{file.path}: its tokenizer cannot be made: {problem}") from problem
    kinds = values.get("token_type") or []
    special = [n for n, kind in zip(names, kinds) if kind in (_CONTROL, _USER)]
    controls = {n for n, kind in zip(names, kinds) if kind == _CONTROL}
    for name in special:
        added = package.AddedToken(name, special=name in controls, normalized=False)
        (tokenizer.add_special_tokens if name in controls else tokenizer.add_tokens)([added])
    begins = values.get("add_bos_token", kind == "llama") and isinstance(values.get("bos_token_id"), int)
    return Tokens(tokenizer, values["bos_token_id"] if begins else None)


def _byte_pairs(values: Mapping[str, Any], source: str) -> Tokenizer:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    given = str(values.get("pre", "gpt-2"))
    pre = _ALIASES.get(given, given)
    if pre not in _SPLITS:
        raise UserError(f"{source} splits text as {given!r} does; known are {', '.join(_SPLITS)}. Numbers of tokens can be given")
    merges = values.get("merges", [])
    if not _strings(merges) or not all(m.count(" ") == 1 for m in merges):
        raise UserError(f"{source} has no tokenizer.ggml.merges, or not pairs of tokens")
    vocabulary = _numbered(values["tokens"])
    pairs = [(a, b) for a, b in (m.split(" ") for m in merges)]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs, ignore_merges=pre == "llama-bpe"))
    splits = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in _SPLITS[pre]]
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pre in _OF_GPT2)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits, level])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentence_pieces(values: Mapping[str, Any], source: str) -> Tokenizer:
    """Pairs are joined in the order of the scores of what they make."""
    from tokenizers import Tokenizer, decoders, models, normalizers

    names, scores = values["tokens"], values.get("scores")
    if not isinstance(scores, list) or len(scores) != len(names):
        raise UserError(f"{source} has no tokenizer.ggml.scores for each of its {len(names)} tokens")
    vocabulary = _numbered(names)
    joined = []
    for name, number in vocabulary.items():
        halves = [(name[:n], name[n:]) for n in range(1, len(name)) if name[:n] in vocabulary and name[n:] in vocabulary]
        halves.sort(key=lambda pair: (vocabulary[pair[0]], vocabulary[pair[1]]))
        joined += [(-float(scores[number]), pair) for pair in halves]
    joined.sort(key=lambda one: one[0])
    unknown = values.get("unknown_token_id", 0)
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=[p for _, p in joined], unk_token=names[unknown], fuse_unk=True, byte_fallback=True)
    )
    prefix = bool(values.get("add_space_prefix", True))
    steps = [normalizers.Prepend("\u2581")] if prefix else []
    tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", "\u2581")])
    last = [decoders.Strip(" ", 1, 0)] if prefix else []
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), *last])
    return tokenizer


def _numbered(names: Sequence[str]) -> dict[str, int]:
    """Names with their numbers; of equal ones the first."""
    found: dict[str, int] = {}
    for number, name in enumerate(names):
        found.setdefault(name, number)
    return found


def _strings(given: object) -> bool:
    return isinstance(given, list) and bool(given) and all(isinstance(s, str) for s in given)


def _package() -> Any:
    try:
        import tokenizers
    except ImportError as problem:
        raise UserError(f"text needs the package tokenizers ({install(EXTRA)}); without it, give numbers of tokens") from problem
    return tokenizers

"""From files to a language model: the network, and what turns text into tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tensorsmith.errors import UserError
from tensorsmith.language import from_folder, from_gguf
from tensorsmith.language.gguf import read_gguf
from tensorsmith.language.model import LanguageModel
from tensorsmith.language.tokens import tokens_of_folder, tokens_of_gguf


def load(path: Path) -> LanguageModel:
    """The model of a GGUF file or of a folder of Hugging Face."""
    if not path.exists():
        raise UserError(f"there is no {path}")
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise UserError(f"{path} is a folder without config.json; give one of Hugging Face, a GGUF or an ONNX file")
        about, weights = from_folder.network_of(path)
        return LanguageModel(
            path.resolve().name,
            about,
            weights,
            lambda: tokens_of_folder(path),
            _in(about.vocabulary, from_folder.ends_of(path)),
            from_folder.chat_template_of(path),
            from_folder.special_of(path),
        )
    file = read_gguf(path)
    about, weights = from_gguf.network_of(file)
    template = file.metadata.get("tokenizer.chat_template")
    return LanguageModel(
        path.stem,
        about,
        weights,
        lambda: tokens_of_gguf(file),
        _in(about.vocabulary, from_gguf.ends_of(file)),
        template if isinstance(template, str) else None,
        from_gguf.special_of(file),
    )


def _in(vocabulary: int, ids: Sequence[object]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(i for i in ids if isinstance(i, int) and 0 <= i < vocabulary))

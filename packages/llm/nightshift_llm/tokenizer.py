"""A byte-level BPE as `tokenizers` writes it, in the terms of GGUF."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gguf import TokenType

from nightshift.runtime.errors import UserError
from nightshift_llm.checkpoint import Checkpoint, read_json

FILE, SETTINGS, TEMPLATE = "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"
LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_SPLIT = LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
BYTES_ONLY = BYTES | {"use_regex": False}


def _split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


# llama.cpp's name of how text is cut before pairs are merged -> the steps, as `tokenizers` writes them
PRE_TOKENIZERS = {
    "gpt-2": [BYTES],
    "smollm": [{"type": "Digits", "individual_digits": True}, BYTES],
    "llama-bpe": [_split(LLAMA3_SPLIT), BYTES_ONLY],
    "qwen2": [_split(QWEN2_SPLIT), BYTES_ONLY],
}
NO_EFFECT = "trim_offsets"  # on tokens
SPECIAL = ("bos", "eos", "pad")
NO_MERGES = ["no merge"]  # llama.cpp wants one; where no other makes "no", this never applies
UNUSED = "[PAD{}]"  # name of an id between others that no token has


@dataclass(frozen=True)
class Vocabulary:
    """Tokens and how text becomes them.

    Attributes:
        tokens: by id, each character a byte of the token, as GPT-2 maps them.
        types: of each token.
        merges: pairs, the most frequent first, as `left right`.
        pre_tokenizer: llama.cpp's name of it.
        special: `bos`, `eos` and `pad` -> id, as far as there are such.
        adds: `bos` and `eos` -> whether every text begins or ends with it.
        chat_template: in Jinja, or None.
    """

    tokens: list[str]
    types: list[TokenType]
    merges: list[str]
    pre_tokenizer: str
    special: dict[str, int]
    adds: dict[str, bool]
    chat_template: str | None


def read_vocabulary(checkpoint: Checkpoint) -> Vocabulary:
    """Read `tokenizer.json` and what stands beside it.

    Rows of the embedding without a token are unused ones. Where there is no `tokenizer_config.json`, the config names
    the special tokens, and the one that begins a text begins every text.

    Raises:
        UserError: when the tokenizer is no byte-level BPE, or cuts text in a way that llama.cpp has no name for.
    """
    folder, size = checkpoint.folder, checkpoint.field("vocab_size")
    document, path = read_json(folder / FILE), folder / FILE
    if document["model"]["type"] != "BPE" or document.get("normalizer"):
        raise UserError(f"{path} is no byte-level BPE without a normalizer, which is what GGUF is written for; use one")
    ids = document["model"]["vocab"] | {token["content"]: token["id"] for token in document["added_tokens"]}
    names = {number: name for name, number in ids.items()}
    if max(names) >= size:
        raise UserError(f"{path} has token {max(names)}, but the model's vocab_size is {size}; resize its embedding")
    settings = read_json(folder / SETTINGS) if (folder / SETTINGS).exists() else None
    special = _number_special(checkpoint.config) if settings is None else _name_special(settings, ids)
    adds = _additions(document.get("post_processor"), special)
    return Vocabulary(
        tokens=[names.get(number, UNUSED.format(number)) for number in range(size)],
        types=_types(document["added_tokens"], names, size),
        merges=[pair if isinstance(pair, str) else " ".join(pair) for pair in document["model"]["merges"]] or NO_MERGES,
        pre_tokenizer=_pre_tokenizer(document["pre_tokenizer"], path),
        special=special,
        adds=adds if settings is not None else adds | {"bos": "bos" in special},
        chat_template=_chat_template(folder, settings or {}),
    )


def _types(added: list[dict[str, Any]], names: Mapping[int, str], size: int) -> list[TokenType]:
    kinds = {token["id"]: TokenType.CONTROL if token["special"] else TokenType.USER_DEFINED for token in added}
    return [kinds.get(number, TokenType.NORMAL if number in names else TokenType.UNUSED) for number in range(size)]


def _pre_tokenizer(entry: Mapping[str, Any] | None, path: Path) -> str:
    steps = [] if entry is None else entry.get("pretokenizers", [entry])
    steps = [{key: value for key, value in step.items() if key != NO_EFFECT} for step in steps]
    for name, known in PRE_TOKENIZERS.items():
        if steps == known:
            return name
    raise UserError(f"{path}: pre_tokenizer is {steps}; allowed are those of {', '.join(PRE_TOKENIZERS)}")


def _number_special(config: Mapping[str, Any]) -> dict[str, int]:
    numbers = {kind: config.get(f"{kind}_token_id") for kind in SPECIAL}
    return {kind: number for kind, number in numbers.items() if isinstance(number, int)}


def _name_special(settings: Mapping[str, Any], ids: Mapping[str, int]) -> dict[str, int]:
    """Return the ids of the special tokens; a token is a text, or an object with one."""
    tokens = {kind: settings.get(f"{kind}_token") or "" for kind in SPECIAL}
    contents = {kind: token if isinstance(token, str) else token["content"] for kind, token in tokens.items()}
    return {kind: ids[content] for kind, content in contents.items() if content in ids}


def _additions(post_processor: Mapping[str, Any] | None, special: Mapping[str, int]) -> dict[str, bool]:
    """Return which special tokens a single text gets: a template's, alone or in a sequence."""
    steps = [] if post_processor is None else post_processor.get("processors", [post_processor])
    template = next((step for step in steps if step["type"] == "TemplateProcessing"), None)
    if template is None:
        return {"bos": False, "eos": False}
    kinds = ["special" if "SpecialToken" in piece else "text" for piece in template["single"]]
    return {"bos": kinds[0] == "special" and "bos" in special, "eos": kinds[-1] == "special" and "eos" in special}


def _chat_template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    if (folder / TEMPLATE).exists():
        return (folder / TEMPLATE).read_text()
    template = settings.get("chat_template")
    return template if isinstance(template, str) else None

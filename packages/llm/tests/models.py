"""Tiny Llamas with random weights, and tokenizers of real text, as `transformers` and `tokenizers` write them."""

import json
import subprocess
from functools import cache
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM

# a text that is always here
LICENSE = tuple(map(str.strip, Path(__file__).parents[3].joinpath("LICENSE").read_text().split("\n\n")))
PARTS = tuple(part for part in LICENSE if len(part) > 40)
READ, UNREAD = PARTS[::2], PARTS[1::2]
START, END = "<|start|>", "<|end|>"
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


@cache
def king_james() -> tuple[str, ...]:
    """Chapters of the King James Bible, from Debian's packages bible-kjv and bible-kjv-text."""
    try:
        printed = subprocess.run(["bible", "-f", "Gen1:1-Gen50:26"], capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        pytest.skip("the program `bible` of Debian's packages bible-kjv and bible-kjv-text is missing")
    chapters: dict[str, list[str]] = {}
    for line in printed.splitlines():
        reference, _, verse = line.partition(" ")
        chapters.setdefault(reference.partition(":")[0], []).append(verse)
    return tuple("\n".join(verses) for verses in chapters.values())


def train_tokenizer(texts: tuple[str, ...], size: int = 512) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[START, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    start = (START, tokenizer.token_to_id(START))
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{START} $A", special_tokens=[start])
    return tokenizer


def write_tokenizer(folder: Path, tokenizer: Tokenizer) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"bos_token": START, "eos_token": {"content": END}, "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def tiny_llama(vocabulary: int, **fields: object) -> LlamaForCausalLM:
    shape = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "rope_theta": 5000.0,
        "initializer_range": 0.2,  # so that logits differ clearly
    }
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(vocab_size=vocabulary, **shape | fields)).eval()


def train_llama(folder: Path, texts: tuple[str, ...], steps: int = 80) -> None:
    """Write a Llama of two layers that has learned something of some texts, and its tokenizer."""
    tokenizer = train_tokenizer(texts, size=320)
    tokens = torch.tensor([token for text in texts for token in tokenizer.encode(text).ids])
    model = tiny_llama(tokenizer.get_vocab_size(), initializer_range=0.05).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(steps):
        batch = tokens[torch.randint(len(tokens) - 32, (8, 1)) + torch.arange(32)]
        model(input_ids=batch, labels=batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    write_tokenizer(folder, tokenizer)
    model.save_pretrained(folder)

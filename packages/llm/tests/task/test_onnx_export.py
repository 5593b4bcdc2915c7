"""The graph of a Llama scores rows as the network does that it is drawn from."""

import numpy as np
import pytest
import torch

from nightshift.models.graph import Graph
from nightshift_llm.recipes.llama import Llama, LlamaParameters
from nightshift_llm.task import candidates, documents, onnx_export
from nightshift_llm.task.tokens import load_tokenizer
from tests.components.tales import chat, task

LENGTH = 16
TOKENIZER = load_tokenizer(task())
CHATS, CHAT = load_tokenizer(task(chat=True)), chat(("user", "What is it?"), ("assistant", "It is a night shift."))
TEXTS = ["a", "a night shift", "longer than a single row of tokens is, and so it takes several of them", "שלום 🙂"]


@pytest.mark.parametrize(
    ("shape", "is_tied"),
    [({}, False), ({"kv_heads": 1}, False), ({"depth": 1, "width": 24, "heads": 3}, False), ({}, True)],
    ids=str,
)
def test_a_graph_scores_as_its_network_does_whoever_shares_keys_and_values(shape, is_tied):
    fit = LlamaParameters.parse_value({"depth": 2, "width": 32, "heads": 2, **shape})
    recipe = Llama("", TOKENIZER.vocabulary, TOKENIZER.start, LENGTH, fit)
    torch.manual_seed(0)
    recipe.shape.tie_word_embeddings = is_tied
    model = recipe.model().eval()
    with torch.no_grad():  # fresh weights predict every token alike
        for parameter in model.parameters():
            parameter.mul_(1 + torch.randn_like(parameter)).add_(0.05 * torch.randn_like(parameter))
    if is_tied:
        model.prediction.output.weight = model.embedding.tokens.weight
    preprocessing = documents.describe_preprocessing(task(length=LENGTH), TOKENIZER)
    rows, _ = documents.cut_rows([*TOKENIZER.encode(TEXTS), *CHATS.encode([CHAT])], preprocessing)
    graph = Graph(onnx_export.export_llama(recipe.causal(model), LENGTH, TOKENIZER.byte_lengths))
    expected = candidates.measure_rows(model, TOKENIZER, rows)
    assert np.abs(graph.score(rows) - expected).max() < 1e-4
    assert expected.std() > 0.01


def test_greedy_tokens_are_those_of_the_highest_logit():
    fit = LlamaParameters.parse_value({"depth": 1, "width": 16, "heads": 1})
    recipe = Llama("", TOKENIZER.vocabulary, TOKENIZER.start, LENGTH, fit)
    torch.manual_seed(0)
    causal = recipe.causal(recipe.model().eval())
    row = torch.from_numpy(TOKENIZER.encode(["a night shift"])[0].astype(np.int64))[None]
    with torch.no_grad():
        for _ in range(LENGTH + 1 - row.shape[1]):  # greedy from here on
            row = torch.cat([row, causal(row).logits[:, -1:].argmax(-1)], dim=1)
        expected = causal(row[:, :-1]).logits.argmax(-1) == row[:, 1:]
    graph = Graph(onnx_export.export_llama(causal, LENGTH, TOKENIZER.byte_lengths))
    greedy = graph.find_greedy(row.numpy().astype(np.int32))
    assert greedy.tolist() == expected.float().tolist()
    assert greedy[0, -3:].all()
    assert not greedy.all()


def test_a_row_without_a_token_to_predict_scores_0():
    fit = LlamaParameters.parse_value({"depth": 1, "width": 16, "heads": 1})
    recipe = Llama("", TOKENIZER.vocabulary, TOKENIZER.start, LENGTH, fit)
    graph = Graph(onnx_export.export_llama(recipe.causal(recipe.model()), LENGTH, TOKENIZER.byte_lengths))
    assert graph.score(np.full((1, LENGTH + 1), TOKENIZER.start, np.int32)).tolist() == [0.0]

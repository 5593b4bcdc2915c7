"""The recipe of Llamas: rows of documents in, nats of each next token out."""

from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM

from nightshift.config.neural import Trainer
from nightshift.models.neural import devices, processes, trainer
from nightshift.models.neural.data import ResidentDataset
from nightshift.models.weights import WeightFile
from nightshift.runtime.errors import UserError
from nightshift_llm.recipes import llama
from nightshift_llm.task import candidates
from nightshift_testkit import hub

START, LENGTH = 96, 24
SHAPE = {"vocabulary": 97, "start": START, "length": LENGTH}
SMALL = {"depth": 2, "width": 32, "heads": 4, "kv_heads": 2}
CPU = torch.device("cpu")


def build(**parameters):
    return llama.build("task.candidates.small.parameters", SHAPE, SMALL | parameters)


def model(recipe):
    torch.manual_seed(0)
    return recipe.model()


def rows(count=3):
    drawn = torch.randint(0, START, (count, LENGTH + 1), dtype=torch.int32, generator=torch.Generator().manual_seed(0))
    drawn[:, 0] = START
    return drawn


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A folder of somebody's weights, tied as in small models."""
    torch.manual_seed(1)
    shape = LlamaConfig(
        vocab_size=97, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("pretrained")
    LlamaForCausalLM(shape).save_pretrained(folder)
    return folder


def reference(causal, tokens):
    """The nats of each next token, as `transformers` computes them for one document."""
    logits = causal(tokens[:, :-1].long()).logits
    return nn.functional.cross_entropy(logits.transpose(1, 2), tokens[:, 1:].long(), reduction="none")


@torch.no_grad()
def test_a_rows_nats_are_those_of_transformers():
    recipe = build()
    decoder = model(recipe)

    assert torch.allclose(decoder(rows()), reference(recipe.causal(decoder), rows()), atol=1e-5)


@torch.no_grad()
def test_no_token_sees_another_document_and_positions_begin_anew():
    decoder, packed = model(build()), rows()
    packed[:, 10] = START

    apart = torch.cat([decoder(packed[:, :11]), decoder(packed[:, 10:])], dim=1)

    assert torch.allclose(decoder(packed), apart, atol=1e-6)
    before = packed.clone()
    before[:, 3] = 5
    assert torch.equal(decoder(before)[:, 10:], decoder(packed)[:, 10:])


def test_logits_in_pieces_have_the_loss_and_the_gradients_of_all_at_once():
    recipe, weights = build(), torch.full((3, LENGTH), 1 / LENGTH)

    def gradients(at_once=llama.LOGITS):
        decoder = model(recipe)
        decoder.prediction.logits = at_once
        loss = recipe.loss(decoder(rows()), weights)
        loss.backward()
        return loss.item(), torch.cat([value.grad.flatten() for value in decoder.parameters()])

    whole, pieces = gradients(), gradients(at_once=97 * 3 * 5)

    assert pieces[0] == pytest.approx(whole[0], rel=1e-6)
    assert torch.allclose(pieces[1], whole[1], atol=1e-6)


def test_a_weight_of_zero_is_nothing_to_learn_and_the_loss_is_the_mean_over_the_others():
    recipe, nats = build(), torch.rand(3, LENGTH)
    weights = torch.zeros(3, LENGTH)
    weights[0, :6] = 3 / 6  # divided by three rows

    assert recipe.loss(nats, weights).item() == pytest.approx(nats[0, :6].mean().item())


def test_floating_point_operations_are_those_that_pytorch_counts():
    recipe = build()
    decoder = model(recipe)

    with FlopCounterMode(display=False) as counter, nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        recipe.loss(decoder(rows()), torch.ones(3, LENGTH)).backward()

    # the logits are computed again on the way back
    again = 2 * 3 * LENGTH * 32 * 97
    assert counter.get_total_flops() - again == 3 * recipe.flops()


def test_width_heads_and_rate_follow_from_the_depth():
    shallow = llama.build("parameters", SHAPE, {"depth": 4}).fit
    deep = llama.build("parameters", SHAPE, {"depth": 16, "kv_heads": 4}).fit

    assert (shallow.width, shallow.heads, shallow.kv_heads, shallow.learning_rate) == (256, 4, 4, 0.003)
    assert (deep.width, deep.heads, deep.kv_heads, deep.learning_rate) == (1024, 16, 4, 0.0015)


@torch.no_grad()
def test_somebodys_weights_are_continued_under_the_same_nats(pretrained):
    recipe = build(pretrained=str(pretrained))

    nats = model(recipe)(rows())

    assert torch.allclose(nats, reference(LlamaForCausalLM.from_pretrained(pretrained), rows()), atol=1e-5)


def train_plainly(causal, batches, steps):
    """Train a model of `transformers` as a textbook does: document after document, without a word of our trainer."""
    optimizer = torch.optim.AdamW(causal.parameters(), lr=0, betas=llama.BETAS, weight_decay=0)
    for done, (packed, weights, _) in enumerate(batches):
        optimizer.param_groups[0]["lr"] = 0.01 * (1 - done / steps)
        optimizer.zero_grad()
        for tokens, learned in zip(packed, weights, strict=True):
            starts = [*torch.nonzero(tokens[:-1] == START).flatten().tolist(), LENGTH]
            for start, end in pairwise(starts):
                nats = reference(causal, tokens[None, start : end + 1])
                ((nats * learned[start:end]).sum() / len(packed)).backward()
        nn.utils.clip_grad_norm_(causal.parameters(), 0.05)
        optimizer.step()
    return causal


@torch.no_grad()
def test_weights_of_a_commit_of_the_hub_are_continued_like_those_of_a_folder(pretrained, tmp_path, monkeypatch):
    with hub.serve() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
        commit = server.publish("somebody/llama", {path.name: path.read_bytes() for path in pretrained.iterdir()})
        theirs = build(pretrained=f"hf://somebody/llama@{commit}").model().state_dict()
    ours = build(pretrained=str(pretrained)).model().state_dict()
    assert all(torch.equal(theirs[name], weights) for name, weights in ours.items())


def test_packed_accumulated_and_clipped_steps_of_tied_weights_are_those_of_a_plain_loop(pretrained):
    fit = {"learning_rate": 0.01, "warmup": 0, "clip": 0.05, "microbatches": 3, "epochs": 2, "batch_size": 4}
    recipe, packed = build(pretrained=str(pretrained), **fit), rows(10)
    packed[::2, 10] = START
    weights = torch.rand(10, LENGTH, generator=torch.Generator().manual_seed(1)) / LENGTH
    data = ResidentDataset(packed, weights, 4)
    with devices.reproducible(0, threads=1):
        trained = trainer.fit(processes.replica(recipe, Trainer(), CPU), data)
        ours = recipe.causal(trained.model)
        torch.manual_seed(0)
        recipe.model()  # draws what the trainer's network has drawn before the rows' order
        data.seed()
        batches = [batch for _ in range(2) for batch in data.epoch()]
        theirs = train_plainly(LlamaForCausalLM.from_pretrained(pretrained), batches, len(batches))

    assert ours.lm_head.weight is ours.model.embed_tokens.weight
    gap = max((ours.state_dict()[name] - value).abs().max() for name, value in theirs.state_dict().items())
    before = LlamaForCausalLM.from_pretrained(pretrained).lm_head.weight
    assert gap < 1e-5 < 1e-3 < (theirs.lm_head.weight - before).abs().max()


def test_a_pretrained_network_learns_at_a_rate_by_its_width_and_begins_gently(pretrained):
    def defaults(**parameters):
        recipe = llama.build("parameters", SHAPE, {"pretrained": str(pretrained), **parameters})
        return recipe.learning_rate, recipe.fit.warmup, recipe.fit.clip

    assert defaults() == (0.000849, 0.1, 1.0)  # 0.0003 at a width of 256, times the root of 256 / 32
    assert defaults(lora_rank=2) == (0.008485, 0.1, 1.0)
    assert defaults(learning_rate=0.5, warmup=0, clip=0) == (0.5, 0, 0)
    trained = dict(build(pretrained=str(pretrained)).model().named_parameters())
    assert {group["lr"] for group in build(pretrained=str(pretrained)).optimizer_groups(trained)} == {0.000849}


def test_tied_weights_are_stored_once_and_score_alike(pretrained, tmp_path):
    recipe = build(pretrained=str(pretrained))
    decoder = model(recipe)

    for name, content in candidates.save_weights(recipe.causal(decoder)):
        (tmp_path / name).write_bytes(content)

    names = WeightFile.read("", (tmp_path / "model.safetensors").read_bytes()).tensors
    assert "lm_head.weight" not in names
    assert "model.embed_tokens.weight" in names
    loaded = LlamaForCausalLM.from_pretrained(tmp_path)
    with torch.no_grad():
        assert torch.allclose(reference(loaded, rows()), decoder(rows()), atol=1e-5)


def test_adapters_learn_alone_and_score_alike_merged_and_unmerged(pretrained):
    recipe = build(pretrained=str(pretrained), lora_rank=2, learning_rate=0.05, epochs=3, batch_size=2)
    base = model(build(pretrained=str(pretrained)))
    with devices.reproducible(0, threads=1):
        replica = processes.replica(recipe, Trainer(), CPU)
        decoder = trainer.fit(replica, recipe.random_rows(6, CPU)).model

    kept = {name.replace("base_layer.", ""): value for name, value in decoder.state_dict().items()}
    assert all(torch.equal(kept[name], value) for name, value in base.state_dict().items())
    with torch.no_grad():
        assert not torch.allclose(decoder(rows()), base(rows()), atol=1e-3)
        assert torch.allclose(reference(recipe.causal(decoder), rows()), decoder(rows()), atol=1e-5)


def test_adapters_learn_beside_matrices_in_4_bits_and_score_alike_merged(pretrained):
    pytest.importorskip("bitsandbytes")
    recipe = build(pretrained=str(pretrained), lora_rank=2, lora_bits=4, learning_rate=0.05, epochs=3, batch_size=2)
    base = model(recipe)
    with devices.reproducible(0, threads=1):
        replica = processes.replica(recipe, Trainer(), CPU)
        decoder = trainer.fit(replica, recipe.random_rows(6, CPU)).model

    packed = {name: value for name, value in base.state_dict().items() if value.dtype == torch.uint8}
    assert len(packed) == 7 * SMALL["depth"]
    assert all(torch.equal(decoder.state_dict()[name], value) for name, value in packed.items())
    with torch.no_grad():
        assert not torch.allclose(decoder(rows()), base(rows()), atol=1e-3)
        assert torch.allclose(reference(recipe.causal(decoder), rows()), decoder(rows()), atol=1e-5)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"heads": 5}, "heads: is 5; a width of 32 is no even number for each of them"),
        ({"kv_heads": 3}, "kv_heads: is 3, which does not divide 4 heads"),
        ({"depth": True}, "depth: Input should be a valid integer"),
        ({"lora_bits": 4}, "lora_bits: no adapters learn beside the matrices; set lora_rank, or write 32, got 4"),
        ({"lora_rank": 2}, "lora_rank: there is nothing pretrained to adapt; name it as `pretrained`"),
    ],
)
def test_parameters_that_make_no_network_are_refused(parameters, message):
    with pytest.raises(UserError, match=message):
        build(**parameters).model()


def test_pretrained_weights_that_do_not_fit_are_refused(pretrained):
    for shape, message in [
        ({**SHAPE, "vocabulary": 98}, "has embeddings of 97 tokens, and task.tokenizer has 98"),
        ({**SHAPE, "length": 65}, "task.length: is 65; the network takes at most 64"),
    ]:
        with pytest.raises(UserError, match=message):
            llama.build("parameters", shape, {"pretrained": str(pretrained)}).model()


def test_weights_stored_in_16_bits_are_trained_in_32(pretrained, tmp_path):
    LlamaForCausalLM.from_pretrained(pretrained).to(torch.bfloat16).save_pretrained(tmp_path)
    recipe = build(pretrained=str(tmp_path))

    decoder = recipe.model()

    assert {value.dtype for value in decoder.parameters()} == {torch.float32}
    assert recipe.causal(decoder).config.dtype == torch.float32
    assert recipe.causal(decoder).config.bos_token_id == START


@pytest.mark.parametrize(("field", "value"), [("attention_bias", True), ("mlp_bias", True), ("hidden_act", "gelu")])
def test_networks_that_no_graph_is_drawn_for_are_refused_before_the_training(pretrained, tmp_path, field, value):
    LlamaConfig.from_pretrained(pretrained, **{field: value}).save_pretrained(tmp_path)

    with pytest.raises(UserError, match=rf"its {field} is {value!r}; choose a network with"):
        _ = build(pretrained=str(tmp_path)).shape


@pytest.mark.parametrize(
    ("tensor", "changes", "message"),
    [
        (3, {}, r"task\.trainer\.tensor: is 3, which does not divide the 4 heads of task\.candidates"),
        (4, {}, "is 4, which does not divide the 2 kv_heads of .*; write one of 1, 2, or change them"),
        (5, {"heads": 5, "kv_heads": 5, "width": 40}, "is 5, which does not divide the 128 units between"),
    ],
)
def test_processes_that_do_not_divide_what_they_share_are_refused(tensor, changes, message):
    recipe = build(**changes)
    with pytest.raises(UserError, match=message):
        recipe.tensor_plan(recipe.model(), tensor)

"""The recipe of image and text towers: pairs in, embeddings and findings out."""

import shutil

import onnxruntime
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel, CLIPConfig, CLIPModel, SiglipConfig, SiglipModel

from nightshift.models import weights
from nightshift.models.neural import devices
from nightshift.models.neural.epochs import WHOLE, RowShare
from nightshift.models.neural.replica import Replica
from nightshift.models.neural.trainer import NetworkTraining
from nightshift.runtime.errors import UserError
from nightshift_image_text.recipes import clip

CPU = torch.device("cpu")
FIELD = "task.candidates.small.parameters"
SHAPE = {"side": 16, "channels": 1, "length": 8, "vocabulary": 50, "pad": 0, "findings": 3}
SMALL = {"width": 16, "heads": 2, "layers": 1, "batch_size": 12}
END = 49  # the end token of what is pretrained
LAYERS = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
TEXT = LAYERS | {"vocab_size": 50, "max_position_embeddings": 10, "bos_token_id": 1, "eos_token_id": END}
IMAGE = LAYERS | {"image_size": 16, "patch_size": 8}
LOSSES = ("softmax", "sigmoid")


def build(shape=SHAPE, **parameters):
    return clip.build(FIELD, shape, SMALL | parameters)


def model(recipe):
    torch.manual_seed(0)
    return recipe.model()


def batch(recipe, count=12):
    torch.manual_seed(1)
    inputs, labels, _ = next(recipe.random_rows(count, CPU).epoch())
    return inputs, labels


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of somebody's weights, in color."""
    torch.manual_seed(2)
    networks = {
        "clip": CLIPModel(CLIPConfig(text_config=TEXT, vision_config=IMAGE, projection_dim=12)),
        "siglip": SiglipModel(SiglipConfig(text_config=TEXT, vision_config=IMAGE)),
        "bert": BertModel(BertConfig(**TEXT, hidden_act="gelu")),
    }
    root = tmp_path_factory.mktemp("pretrained")
    for name, network in networks.items():
        if name == "siglip":
            torch.nn.init.constant_(network.logit_scale, 1.5)
        network.save_pretrained(root / name)
    return {name: str(root / name) for name in networks}


def texts(count=4):
    """Tokens that begin, end, and are filled up."""
    drawn = torch.randint(3, END, (count, 8), dtype=torch.int32, generator=torch.Generator().manual_seed(0))
    drawn[:, 0] = 1
    for row, length in enumerate(range(count)):
        drawn[row, 4 + length :] = 0
        drawn[row, 3 + length] = END
    return drawn


def images(count=4, side=16, channels=3):
    return torch.randint(
        0, 256, (count, side, side, channels), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )


def run(graph, inputs):
    session = onnxruntime.InferenceSession(graph)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {name: value.numpy() for name, value in inputs.items()}), strict=True))


@torch.no_grad()
def check_graph(recipe, network, inputs):
    merged = recipe.merge(network).eval()
    expected = merged(inputs)
    scored = run(clip.export(merged, recipe), inputs)
    assert scored.keys() == expected.keys() == {"score", "image_embedding", "text_embedding", "embedding"}
    for name, values in expected.items():
        torch.testing.assert_close(torch.from_numpy(scored[name]), values, rtol=0, atol=1e-5)
        if name.endswith("_embedding"):
            torch.testing.assert_close(values.norm(dim=1), torch.ones(len(values)))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("count", [1, 5])
def test_the_graph_scores_as_the_network_does_texts_without_tokens_too(loss, count):
    recipe = build(loss=loss, pairs_weight=count - 1)
    inputs, _ = batch(recipe, count)
    inputs["tokens"][0] = SHAPE["pad"]

    check_graph(recipe, model(recipe), inputs)


@pytest.mark.parametrize("parameters", [{"train": "lora"}, {"pretrained_text": "bert", "train": "lora"}])
@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_the_graph_of_a_pretrained_network_has_its_adapters_merged(folders, kind, parameters):
    named = {key: folders.get(value, value) for key, value in parameters.items()}
    recipe = build(pretrained=folders[kind], **named)
    network = model(recipe)
    for name, value in network.named_parameters():
        if "lora_B" in name:  # which begins at 0
            torch.nn.init.normal_(value)
    inputs, _ = batch(recipe, 4)
    inputs["tokens"][0], inputs["tokens"][1] = 0, texts()[1]

    check_graph(recipe, network, inputs)


def test_weights_too_many_for_a_graph_lie_in_files_beside_it(folders, tmp_path):
    recipe = build(pretrained=folders["siglip"], pretrained_text=folders["bert"])
    merged = recipe.merge(model(recipe)).eval()

    graph = clip.export(merged, recipe, in_graph=0)

    files = weights.weight_files(graph)
    assert [file.name for file in files] == ["small-00001-of-00001.safetensors"]
    for file in files:
        (tmp_path / file.name).write_bytes(file.content)
    (tmp_path / "small.onnx").write_bytes(graph)
    inputs, _ = batch(recipe, 2)
    beside, inside = run(str(tmp_path / "small.onnx"), inputs), run(clip.export(merged, recipe), inputs)
    assert len(graph) < sum(len(file.content) for file in files)
    assert all(abs(beside[name] - inside[name]).max() < 1e-6 for name in inside)


def test_a_tower_without_anything_to_adapt_is_kept(folders):
    recipe = build(pretrained_text=folders["bert"], frozen_text=True, train="lora")

    assert not any("lora_" in name for name, _ in model(recipe).named_parameters())


@torch.no_grad()
@pytest.mark.parametrize(("kind", "loss"), [("clip", "softmax"), ("siglip", "sigmoid")])
def test_pretrained_towers_have_the_embeddings_and_the_loss_of_transformers(folders, kind, loss):
    network = {"clip": CLIPModel, "siglip": SiglipModel}[kind].from_pretrained(folders[kind]).eval()
    recipe = build(SHAPE | {"channels": 3}, pretrained=folders[kind], loss=loss, findings_weight=0)
    pixels, tokens = images(), texts()
    mean, deviation = (torch.tensor(values) for values in clip.NORMALIZATIONS[kind])
    normalized = ((pixels / 255 - mean) / deviation).permute(0, 3, 1, 2)

    expected = network(input_ids=tokens.long(), pixel_values=normalized, return_loss=True)

    outputs = model(recipe)({"pixels": pixels, "tokens": tokens})
    numbers = torch.arange(4.0)[:, None].expand(4, 2)
    similar = outputs["image"] @ outputs["text"].T
    torch.testing.assert_close(similar, expected.logits_per_image, rtol=1e-4, atol=1e-4)
    loss = recipe.loss(outputs, torch.cat([numbers, torch.zeros(4, 3)], 1))
    torch.testing.assert_close(loss, expected.loss, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_a_text_is_embedded_the_same_where_the_end_is_the_padding_and_where_no_end_fits(folders):
    tokens = texts()
    padded = torch.where(tokens == 0, END, tokens)
    embedded = {}
    for pad, numbers in ((0, tokens), (END, padded)):
        recipe = build(SHAPE | {"pad": pad}, pretrained=folders["clip"])
        embedded[pad] = model(recipe)({"pixels": images(channels=1), "tokens": numbers})["text"]

    torch.testing.assert_close(embedded[0], embedded[END])
    cut = torch.where(tokens == END, 7, tokens)  # two cut texts that differ
    text = model(build(pretrained=folders["clip"]))({"pixels": images(channels=1), "tokens": cut})["text"]
    assert (text[0] - text[1]).abs().max() > 0.01


@torch.no_grad()
def test_gray_images_are_repeated_and_positions_are_interpolated_for_another_side(folders):
    color = build(SHAPE | {"channels": 3, "side": 32}, pretrained=folders["clip"])
    gray = build(SHAPE | {"side": 32}, pretrained=folders["clip"])
    pixels = images(side=32, channels=1)
    network = CLIPModel.from_pretrained(folders["clip"])
    mean, deviation = (torch.tensor(values) for values in clip.NORMALIZATIONS["clip"])
    normalized = ((pixels.expand(4, 32, 32, 3) / 255 - mean) / deviation).permute(0, 3, 1, 2)

    expected = network.get_image_features(normalized, interpolate_pos_encoding=True).pooler_output

    for recipe, seen in ((gray, pixels), (color, pixels.expand(4, 32, 32, 3))):
        embedded = recipe.merge(model(recipe))({"pixels": seen, "tokens": texts()})["image_embedding"]
        torch.testing.assert_close(embedded, torch.nn.functional.normalize(expected, dim=1), rtol=1e-4, atol=1e-5)


def take_steps(recipe, count=2, **overrides):
    """Return the weights before and after some steps."""
    with devices.reproducible(0, threads=1):
        rows = recipe.random_rows(24, CPU)
        training = NetworkTraining(Replica(recipe, CPU), rows)
        before = {name: value.clone() for name, value in training.replica.weights().items()}
        for _, share in zip(range(count), training.batches(), strict=False):
            training.step(share)
        return before, training.replica.weights()


def changed(recipe):
    before, after = take_steps(recipe)
    return {name for name in before if not torch.equal(before[name], after[name])}


HEADS = {"heads.image.weight", "heads.text.weight", "heads.findings.weight", "heads.findings.bias", "heads.logit_scale"}


def test_heads_train_nothing_else(folders):
    assert changed(build(pretrained=folders["clip"], train="heads")) == HEADS


def test_adapters_train_beside_weights_that_stay(folders):
    names = changed(build(pretrained=folders["clip"], train="lora"))

    assert names > HEADS
    assert all("lora_" in name for name in names - HEADS)
    towers = {name.split(".")[0] for name in names - HEADS}
    assert towers == {"image0", "image1", "text0", "text1"}


def test_a_frozen_text_tower_stays_as_its_folder_has_it(folders):
    recipe = build(pretrained_text=folders["bert"], frozen_text=True)
    saved = load_file(f"{folders['bert']}/model.safetensors")

    _, after = take_steps(recipe)

    assert torch.equal(after["embedding.text.word_embeddings.weight"], saved["embeddings.word_embeddings.weight"])
    layer = "encoder.layer.1.output.dense.weight"
    assert torch.equal(after["text1.layer.output.dense.weight"], saved[layer])
    assert {name.split(".")[0] for name in changed(recipe)} == {"embedding", "image0", "pooling", "heads"}
    assert not any(name.startswith("embedding.text") for name in changed(recipe))


def test_without_pairs_the_image_tower_learns_alone():
    names = changed(build(pairs_weight=0))

    assert {name.split(".")[0] for name in names} == {"embedding", "image0", "pooling", "heads"}
    assert not any("text" in name for name in names)
    assert {name for name in names if name.startswith("heads")} == {"heads.findings.weight", "heads.findings.bias"}


def test_pretrained_towers_learn_at_a_rate_of_their_own(folders):
    recipe = build(pretrained_text=folders["bert"], weight_decay=0.1)
    trained = {name: value for name, value in model(recipe).named_parameters() if value.requires_grad}

    rates = {id(value): group.get("lr") for group in recipe.optimizer_groups(trained) for value in group["params"]}

    assert len(rates) == len(trained)
    for name, value in trained.items():
        is_old = name.startswith(("embedding.text", "text", "pooling.text"))
        assert rates[id(value)] == (0.00002 if is_old else None), name


@pytest.mark.parametrize(("loss", "pieces"), [("softmax", 2), ("softmax", 4), ("softmax", 8), ("sigmoid", 8)])
def test_pieces_have_the_gradients_of_the_whole_batch(loss, pieces):
    def gradients(count):
        with devices.reproducible(0, threads=1):
            recipe = build(loss=loss, microbatches=count)
            replica, rows = Replica(recipe, CPU), recipe.random_rows(12, CPU)
            rows.labels[:, 0] = torch.arange(12) // 2  # two images of each study
            loss_value = replica.backward(next(rows.epoch()), lambda value: value)
            return {"loss": loss_value} | {name: value.grad for name, value in replica.parameters().items()}

    whole, cut = gradients(1), gradients(pieces)

    for name, value in whole.items():
        torch.testing.assert_close(cut[name], value, rtol=1e-5, atol=1e-5)


def test_some_batches_are_seen_at_a_smaller_side_by_all_processes_alike():
    recipe = build(small_side=8, small_share=0.5)

    def sides(skip=0, share=WHOLE):
        torch.manual_seed(3)
        rows = recipe.random_rows(240, CPU)
        rows.seed()
        return [share.inputs["pixels"].shape[1:] for share in rows.epoch(skip, share)]

    whole = sides()
    assert set(whole) == {(16, 16, 1), (8, 8, 1)}
    assert whole == sides(share=RowShare(1, 3))
    assert whole[7:] == sides(skip=7)
    small = recipe.random_rows(12, CPU)
    assert {share.inputs["pixels"].shape[1] for share in small.held_out_batches()} <= {16}


def test_both_sides_have_gradients_of_the_same_weights():
    recipe = build(small_side=8, small_share=0.5)
    inputs, labels = batch(recipe)
    network = model(recipe)

    for side in (16, 8):
        network.zero_grad()
        recipe.loss(network(inputs | {"pixels": images(12, side, 1)}), labels).backward()
        assert all(value.grad is not None and value.grad.isfinite().all() for value in network.parameters())


def test_less_is_computed_where_less_is_trained_or_seen(folders):
    whole = build(pretrained=folders["clip"]).flops()
    forward = build(pretrained=folders["clip"], train="heads").flops()
    side = SHAPE | {"side": 32}

    assert 2.5 < whole / forward < 3.1
    assert build(pairs_weight=0).flops() < 0.7 * build().flops()
    assert build(side, small_share=0.5, small_side=16).flops() < 0.8 * build(side).flops()


def test_half_precision_compares_pairs_in_full():
    recipe = build(precision="bf16")
    inputs, labels = batch(recipe)
    network = model(recipe)

    with torch.autocast("cpu", torch.bfloat16):
        outputs = network(inputs)
        loss = recipe.loss(outputs, labels)

    assert {values.dtype for values in outputs.values()} == {torch.float32}
    assert loss.dtype == torch.float32


def test_pairs_find_each_other_after_a_training():
    recipe = build(epochs=30, learning_rate=0.01, shift=0)
    with devices.reproducible(0, threads=1):
        rows = recipe.random_rows(24, CPU)
        training = NetworkTraining(Replica(recipe, CPU), rows)
        losses = [training.step(share).item() for share in training.batches()]

    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize(
    ("shape", "parameters", "message"),
    [
        ({}, {"heads": 3}, r"parameters.heads: is 3, which does not divide the width of 16"),
        ({"side": 20}, {}, r"task.side: is 20, which patches of 8 pixels do not divide evenly"),
        ({}, {"small_share": 0.1}, r"parameters.small_side: is 32; write a multiple of 8.*below 16"),
        ({}, {"train": "lora"}, r"parameters.train: there is nothing pretrained to keep"),
        ({}, {"frozen_text": True}, r"parameters.frozen_text: there is nothing pretrained to keep"),
        ({}, {"pairs_weight": 0, "findings_weight": 0}, r"parameters.findings_weight: nothing would be learned"),
        (
            {},
            {"pretrained": "bert"},
            r"parameters.pretrained: is a network of type 'bert'; choose one of type 'clip' or",
        ),
        ({}, {"pretrained_text": "clip"}, r"parameters.pretrained_text: is a network of type 'clip'; choose.*'bert'"),
        (
            {"channels": 2},
            {"pretrained": "clip"},
            r"task.channels: is 2; .*pretrained takes 3, or 1, which is repeated",
        ),
        ({"vocabulary": 60}, {"pretrained": "clip"}, r"has embeddings of 50 tokens, and task.tokenizer has 60"),
        ({"length": 12}, {"pretrained_text": "bert"}, r"task.length: is 12; the network takes at most 10"),
    ],
)
def test_what_does_not_fit_is_refused(folders, shape, parameters, message):
    named = {key: folders.get(value, value) if "pretrained" in key else value for key, value in parameters.items()}

    with pytest.raises(UserError, match=message):
        build(SHAPE | shape, **named).model()


def test_layers_are_not_shared():
    with pytest.raises(UserError, match=r"task.trainer.tensor: a clip's layers are not shared; write tensor: 1"):
        build().tensor_plan(torch.nn.Sequential(), 2)


def test_weights_that_a_folder_lacks_are_named(folders, tmp_path):
    shutil.copy(f"{folders['clip']}/config.json", tmp_path)
    saved = load_file(f"{folders['clip']}/model.safetensors")
    del saved["visual_projection.weight"]
    save_file(saved, tmp_path / "model.safetensors", {"format": "pt"})

    with pytest.raises(UserError, match=r"has no weights of visual_projection.weight"):
        build(pretrained=str(tmp_path)).model()


def test_compact_towers_have_the_graph_of_their_network():
    recipe = build(design="compact")
    network, (inputs, _) = model(recipe), batch(recipe, 5)
    network.train()(inputs)  # after which batches have statistics

    check_graph(recipe, network.eval(), inputs)


@pytest.mark.parametrize(
    "values", [{"loss": "sigmoid"}, {"microbatches": 2}, {"patch": 12}], ids=["sigmoid", "pieces", "patch"]
)
def test_compact_towers_refuse_what_they_are_not_made_for(values):
    with pytest.raises(UserError, match="design: compact towers"):
        build(design="compact", **values)

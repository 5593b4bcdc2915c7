"""The recipe of image and text towers: pairs in, embeddings and findings out."""

import onnxruntime
import pytest
import torch

from nightshift_image_text.recipes import clip

CPU = torch.device("cpu")
FIELD = "task.candidates.small.parameters"
SHAPE = {"side": 16, "channels": 1, "length": 8, "vocabulary": 50, "pad": 0, "findings": 3}
SMALL = {"width": 16, "heads": 2, "layers": 1, "batch_size": 12}
LOSSES = ("softmax", "sigmoid")


def build(**parameters):
    return clip.build(FIELD, SHAPE, SMALL | parameters)


def model(recipe):
    torch.manual_seed(0)
    return recipe.model()


def batch(recipe, count=12):
    torch.manual_seed(1)
    inputs, labels, _ = next(recipe.random_rows(count, CPU).epoch())
    return inputs, labels


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
        torch.testing.assert_close(torch.from_numpy(scored[name]), values, rtol=0, atol=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_graph_scores_as_the_network_does(loss):
    recipe = build(loss=loss)
    inputs, _ = batch(recipe)
    inputs["tokens"][1, 5:] = SHAPE["pad"]

    check_graph(recipe, model(recipe), inputs)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_single_pair_without_any_token_has_embeddings_of_unit_length(loss):
    recipe = build(loss=loss)
    inputs, _ = batch(recipe, 1)
    inputs["tokens"][:] = SHAPE["pad"]

    check_graph(recipe, model(recipe), inputs)

    embedded = recipe.merge(model(recipe))(inputs)
    assert embedded["text_embedding"].norm(dim=1).item() == pytest.approx(1, abs=1e-5)

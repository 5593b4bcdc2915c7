"""The recipe of residual networks."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import ResNetConfig, ResNetForImageClassification

from nightshift.config.neural import Recompute
from nightshift.config.section import check_parameters
from nightshift.models.neural import devices, trainer
from nightshift.models.neural.data import KEEP, AugmentedDataset, gather_resident
from nightshift.models.neural.recomputation import recompute
from nightshift.models.neural.replica import Replica
from nightshift.models.recipes.bert import BertParameters
from nightshift.models.recipes.resnet import IMAGENET_MEAN, IMAGENET_STD, BatchNorm, Pointwise, ResNet, ResNetParameters
from nightshift.runtime.errors import UserError

RESNET50 = {"stages": "3,4,6,3", "width": 64, "bottleneck": True, "stem": "large"}


def parameters_of(**fields) -> int:
    with torch.device("meta"):
        model = ResNet("parameters", 224, 3, 1000, ResNetParameters(**fields)).model()
    return sum(weights.numel() for weights in model.parameters())


def test_resnet_50_and_18_have_the_sizes_that_everybody_knows():
    assert parameters_of(**RESNET50) == 25_557_032
    assert parameters_of(stages="2,2,2,2", width=64, stem="large") == 11_689_512


def test_resnet_50_takes_the_operations_that_everybody_knows():
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        ResNet("parameters", 224, 3, 1000, ResNetParameters(**RESNET50)).model().eval()(
            torch.zeros(1, 224, 224, 3, dtype=torch.uint8)
        )
    assert counter.get_total_flops() == pytest.approx(2 * 4.09e9, rel=0.01)


@pytest.mark.parametrize("fields", [{"stages": "1,2"}, {"stages": "1,1", "bottleneck": True, "stem": "large"}])
def test_images_come_in_as_bytes_and_leave_as_a_score_for_each_class(fields):
    recipe = ResNet("parameters", 16, 3, 5, ResNetParameters(width=4, **fields))
    pixels = torch.randint(0, 256, (6, 16, 16, 3), dtype=torch.uint8)
    logits = recipe.model()(pixels)
    assert logits.shape == (6, 5)
    assert recipe.loss(logits, torch.arange(6) % 5).isfinite()


@pytest.mark.parametrize("stem", ["small", "large"])
def test_the_layout_in_memory_changes_nothing_that_is_learned(stem):
    torch.manual_seed(0)  # of 1,500 draws, 36 have a unit so close to 0 that its rectifier opens in one layout alone
    pixels, gradients = torch.randint(0, 256, (4, 32, 32, 3), dtype=torch.uint8), []
    for channels_last in (True, False):
        torch.manual_seed(0)
        model = ResNet(
            "parameters", 32, 3, 5, ResNetParameters(width=8, stem=stem, channels_last=channels_last)
        ).model()
        model(pixels).square().sum().backward()
        layout = torch.channels_last if channels_last else torch.contiguous_format
        assert model[0].path[0].weight.is_contiguous(memory_format=layout)
        assert model[0](pixels).is_contiguous(memory_format=layout)
        gradients.append([weights.grad for weights in model.parameters()])
    assert all(torch.allclose(one, other, rtol=1e-3, atol=1e-3) for one, other in zip(*gradients, strict=True))


def test_a_shortcut_that_leaves_out_pixels_is_the_convolution_with_that_stride():
    images = torch.rand(2, 4, 9, 7).to(memory_format=torch.channels_last)
    ours = Pointwise(4, 8, 1, 2, bias=False)
    theirs = torch.nn.Conv2d(4, 8, 1, 2, bias=False)
    theirs.load_state_dict(ours.state_dict())
    assert torch.allclose(ours(images), theirs(images), atol=1e-6)


def test_pretrained_networks_learn_more_slowly_at_first_with_limited_gradients_by_default():
    def defaults(kind, **fields):
        fit = check_parameters(kind, "", fields)
        return fit.learning_rate, fit.warmup, fit.clip

    assert defaults(ResNetParameters, pretrained="here") == (0.0003, 0.1, 1)
    assert defaults(BertParameters, pretrained="here") == (0.00005, 0.1, 1)
    assert defaults(BertParameters, pretrained="here", lora_rank=8) == (0.0005, 0.1, 1)
    assert defaults(BertParameters, pretrained="here", learning_rate=0.1, warmup=0, clip=2) == (0.1, 0, 2)
    assert defaults(BertParameters) == (0.0005, 0, 0)


def test_operations_are_those_that_pytorch_counts_for_each_image():
    recipe = ResNet("parameters", 16, 1, 5, ResNetParameters(width=4))
    with FlopCounterMode(display=False) as counter:
        recipe.model()(torch.zeros(6, 16, 16, 1, dtype=torch.uint8)).sum().backward()
    assert counter.get_total_flops() == 6 * recipe.flops()


def test_processes_that_share_layers_are_told_that_they_cannot():
    recipe = ResNet("parameters", 16, 1, 5, ResNetParameters())
    with pytest.raises(UserError, match=r"task.trainer.tensor: .*write tensor: 1"):
        recipe.tensor_plan(recipe.model(), 2)


@pytest.mark.parametrize(("name", "value"), [("stages", "1,0"), ("stages", "two"), ("stem", "huge"), ("shift", 0.5)])
def test_a_parameter_that_is_wrong_is_named(name, value):
    with pytest.raises(UserError, match=rf"^task.x.{name}: .*, got {value!r}$"):
        check_parameters(ResNetParameters, "task.x", {name: value})


def test_a_parameter_that_is_unknown_is_named_with_the_nearest():
    with pytest.raises(UserError, match=r"task.x.stage: unknown; .*did you mean 'stages'\?"):
        check_parameters(ResNetParameters, "task.x", {"stage": "1"})


def published(folder: Path, **changes) -> ResNetForImageClassification:
    """Write a small network's weights as everybody shares them; its statistics are those of no batch."""
    shape = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 2], "layer_type": "basic"} | changes
    model = ResNetForImageClassification(ResNetConfig(**shape)).eval()
    for norm in (module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)):
        norm.running_mean.normal_(0, 0.1)
        norm.running_var.uniform_(0.5, 2)
    model.save_pretrained(folder)
    return model


DEEP = {"embedding_size": 4, "hidden_sizes": [16, 32], "layer_type": "bottleneck"}


@pytest.mark.slow
@pytest.mark.parametrize("shape", [{}, DEEP])
@pytest.mark.parametrize("normalization", [None, {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]}])
def test_a_network_begins_with_published_weights_and_sees_pixels_as_they_did(tmp_path, shape, normalization):
    theirs = published(tmp_path, **shape)
    if normalization:
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(normalization))
    pixels = torch.randint(0, 256, (4, 37, 37, 3), dtype=torch.uint8)
    mean, deviation = normalization.values() if normalization else (IMAGENET_MEAN, IMAGENET_STD)

    *blocks, _ = ResNet("parameters", 37, 3, 5, ResNetParameters(pretrained=str(tmp_path))).model().eval()

    with torch.no_grad():
        ours = torch.nn.Sequential(*blocks)(pixels).mean((2, 3))
        scaled = (pixels / 255 - torch.tensor(mean)) / torch.tensor(deviation)
        expected = theirs.resnet(scaled.permute(0, 3, 1, 2)).pooler_output[:, :, 0, 0]
    assert torch.allclose(ours, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ({"num_channels": 1}, r"^parameters.pretrained: its num_channels is 1; choose a network with 3"),
        ({"hidden_sizes": [8, 24]}, r"its hidden_sizes is \[8, 24\]; choose a network with \[8, 16\]"),
        ({"hidden_act": "gelu"}, "its hidden_act is 'gelu'"),
        ({**DEEP, "downsample_in_bottleneck": True}, "its downsample_in_bottleneck is True"),
    ],
)
def test_published_weights_of_another_network_are_refused(tmp_path, shape, why):
    published(tmp_path, **shape)
    with pytest.raises(UserError, match=why):
        ResNet("parameters", 37, 3, 5, ResNetParameters(pretrained=str(tmp_path))).model()


def test_published_weights_for_gray_images_have_to_say_what_gray_is(tmp_path):
    published(tmp_path, num_channels=1)
    recipe = ResNet("parameters", 37, 1, 5, ResNetParameters(pretrained=str(tmp_path)))
    with pytest.raises(UserError, match=r"pretrained: has 3 means for 1 channels; write image_mean"):
        recipe.model()


@pytest.mark.parametrize("fields", [{}, {"bottleneck": True}, {"stem": "large"}, {"precision": "bf16"}])
@pytest.mark.parametrize(
    ("rows", "batch_size", "microbatches"), [(9, 8, 1), (1, 4, 1), (3, 1, 1), (9, 8, 8), (5, 4, 2)]
)
def test_a_batch_of_one_row_whose_pixels_are_down_to_one_trains_like_others(fields, rows, batch_size, microbatches):
    fit = {"stages": "1,1,1,1", "width": 4, "epochs": 2, "batch_size": batch_size, "microbatches": microbatches}
    recipe = ResNet("parameters", 8, 3, 2, check_parameters(ResNetParameters, "parameters", fit | fields))
    pixels, known = torch.randint(256, (rows, 8, 8, 3), dtype=torch.uint8), torch.arange(rows) % 2

    with devices.reproducible(0, threads=1):
        trained = trainer.fit(
            Replica(recipe, torch.device("cpu")),
            AugmentedDataset(gather_resident(pixels), known, batch_size, KEEP),
        )

    assert all(value.isfinite().all() for value in trained.model.state_dict().values())
    assert trained.model.eval()(pixels).isfinite().all()


@pytest.mark.parametrize("extent", [Recompute.SELECTIVE, Recompute.FULL])
def test_rows_that_are_recomputed_count_once_in_the_statistics(extent):
    pixels, statistics = torch.randn(8, 4, 3, 3), {}
    for name in (Recompute.NONE, extent):
        norm = BatchNorm(4)
        block = nn.Sequential(norm, nn.ReLU())
        recompute(block, name)
        block(pixels.clone().requires_grad_()).sum().backward()
        statistics[name] = norm.state_dict()
    assert all(torch.equal(value, statistics[extent][key]) for key, value in statistics[Recompute.NONE].items())

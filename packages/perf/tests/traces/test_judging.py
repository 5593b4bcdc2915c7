"""What is said of kernels, by what, and that nothing is advised where nothing is known."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightshift_perf.traces import read
from nightshift_perf.traces.analysis import Known, analyze
from nightshift_perf.traces.ceiling import KernelCounters
from packages.perf.tests.traces.samples import CASES, Events, cases

A100 = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}]}
OFF, UNKNOWN = "Arithmetic without tensor cores", "Kernels that are not known"
BF16, SGEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", "volta_sgemm_64x64_nt"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"


def titles(profile):
    return [finding.title for finding in profile.diagnosis]


def find_kernel(profile, name):
    return next(kernel_profile for kernel_profile in profile.top_kernels if kernel_profile.name == name)


def product(events, kernel, took, size=1024, kind="float", operation="aten::mm"):
    """Add an operation with its shapes, and the kernel that it launches."""
    number = events.number + 1
    dims = {"Input Dims": [[size, size]] * 2, "Input type": [kind, kind], "External id": number}
    events.add("op", operation, 0, 1, **dims)
    return events.kernel(kernel, 10 * number, took, **{"External id": number})


@pytest.mark.parametrize(
    ("kernel", "took", "kind", "counted", "verdict"),
    [
        # 2 x 1024^3 operations: in 50 us 43 TFLOP/s, above the 19.5 of an A100's ordinary cores; in 500 us below
        ("mystery", 50, "float", (), (True, "fp32", "achieved FLOP/s")),
        (SGEMM, 50, "float", (), (True, "fp32", "achieved FLOP/s")),
        (SGEMM, 500, "c10::BFloat16", (), (False, "fp32", "name")),
        (BF16, 500, "float", (), (True, "bf16", "name")),
        ("mystery", 500, "c10::BFloat16", (), (True, "bf16", "types of operands")),
        ("mystery", 500, "c10::Float8_e4m3fn", (), (True, "fp8", "types of operands")),
        ("mystery", 500, "float", (KernelCounters("mystery", 1e9, 1e6, 500, 1e9),), (True, "fp32", "counters")),
        ("mystery", 500, "float", (KernelCounters("mystery", 1e9, 1e6, 500, 0.0),), (False, "fp32", "counters")),
        ("mystery", 500, "float", (KernelCounters("mystery", 1e9, 1e6, 500),), (None, "fp32", None)),
        ("mystery", 500, "float", (), (None, "fp32", None)),
    ],
)
def test_flops_decide_then_names_then_operands_then_counters(kernel, took, kind, counted, verdict, tmp_path):
    trace = product(Events().steps((0, 1000)), kernel, took, kind=kind).trace(tmp_path, **A100)
    one = find_kernel(analyze([trace], Known(counted=counted)), kernel)
    assert (one.operation, (one.tensor_cores, one.precision, one.basis)) == ("matrix product", verdict)


def test_two_kernels_of_one_operation_share_its_flops(tmp_path):
    events = product(Events().steps((0, 1000)), "first", 60)
    events.kernel("second", 100, 60, **{"External id": 1}).kernel("splitKreduce_kernel", 200, 9, **{"External id": 1})
    profile = analyze([events.trace(tmp_path, **A100)], Known())
    # 2.1 GFLOP in 120 us are 17.9 TFLOP/s; counted twice they would be 35.8
    assert (find_kernel(profile, "first").tensor_cores, find_kernel(profile, "second").tensor_cores) == (None, None)
    assert find_kernel(profile, "splitKreduce_kernel").operation == "other"


def test_a_gpu_without_known_peaks_is_judged_by_names_alone(tmp_path):
    trace = product(Events().steps((0, 1000)), "mystery", 50).trace(tmp_path)
    assert find_kernel(analyze([trace], Known()), "mystery").tensor_cores is None


def test_attention_and_convolutions_are_judged_by_their_operands(tmp_path):
    events = product(
        Events().steps((0, 1000)), "attn_fwd", 400, kind="c10::Half", operation="aten::_flash_attention_forward"
    )
    product(events, "mystery_conv", 400, kind="c10::BFloat16", operation="aten::miopen_convolution")
    profile = analyze([events.trace(tmp_path)], Known())
    assert [(one.tensor_cores, one.precision) for one in profile.top_kernels] == [(True, "fp16"), (True, "bf16")]


def test_the_advice_says_by_what_it_judges(tmp_path):
    trace = Events().steps((0, 1000)).kernel(SGEMM, 0, 900).kernel(BF16, 900, 100).trace(tmp_path)
    (one,) = (finding for finding in analyze([trace], Known()).diagnosis if finding.title == OFF)
    assert "90 % of the time of matrix products" in one.evidence
    assert "name (100 %)" in one.evidence


def test_a_narrower_precision_is_not_advised_to_what_has_one(tmp_path):
    trace = (
        Events().steps((0, 1000)).kernel("volta_fp16_scudnn_fp16_128x64_relu_interior_nn_v1", 0, 990).trace(tmp_path)
    )
    profile = analyze([trace], Known())
    assert (titles(profile)[0], profile.tensor_core_pct) == ("The GPU is the limit", 0)


def test_unknown_kernels_are_said_to_be_unknown_with_what_would_tell(tmp_path):
    trace = Events().steps((0, 1000)).kernel("mystery", 0, 600).kernel(BF16, 600, 400).trace(tmp_path)
    profile = analyze([trace], Known())
    assert titles(profile)[-1] == UNKNOWN
    assert "60 %" in profile.diagnosis[-1].evidence
    assert "record_shapes" in profile.diagnosis[-1].fix
    assert (profile.unknown_pct, profile.tensor_core_pct) == (60, 100)


STRANGE = st.text("xyqvkwjz0123456789_:<>", min_size=1, max_size=30)


@given(kernels=st.lists(st.tuples(st.sampled_from([SGEMM, BF16, "relu", NCCL]), st.integers(1, 900)), max_size=6),
       strange=STRANGE, took=st.integers(1, 5000))  # fmt: skip
@settings(max_examples=20, deadline=None)
def test_an_unknown_kernel_never_brings_an_advice(kernels, strange, took, tmp_path_factory):
    def advised(*more):
        events = Events().steps((0, 10_000))
        for number, (name, lasts) in enumerate([*kernels, *more]):
            events.kernel(name, 1000 * number, lasts, stream=7 + number)
        return OFF in titles(analyze([events.trace(tmp_path_factory.getbasetemp())], Known()))

    assert advised((strange, took)) <= advised()


def test_an_unknown_kernel_communicates_by_stream_metadata_or_operation(tmp_path):
    events = Events().steps((0, 1000)).kernel(BF16, 0, 300).kernel("mystery", 300, 50)
    events.kernel(NCCL, 400, 100, stream=20).kernel("by_stream", 500, 100, stream=20)
    events.kernel("by_metadata", 600, 100, **{"Collective name": "allgather", "In msg nelems": 8, "Group size": 2})
    events.kernel("by_group", 900, 100, **{"Process Group Name": "0"})
    events.add("op", "record_param_comms", 0, 1, **{"External id": 77})
    events.kernel("by_operation", 700, 100, **{"External id": 77}).kernel("relu", 800, 10, **{"External id": 77})
    profile = analyze([events.trace(tmp_path)], Known())
    talks = {one.name for one in profile.top_kernels if one.kind == "communication"}
    assert talks == {NCCL, "by_stream", "by_metadata", "by_group", "by_operation"}
    assert profile.communication_pct == 50


def test_a_stream_that_also_computes_says_nothing_about_unknown_kernels(tmp_path):
    events = Events().steps((0, 1000)).kernel("two_shot_all_reduce_kernel_inplace", 0, 500)
    events.kernel(BF16, 500, 200).kernel("mystery", 700, 300)
    assert analyze([events.trace(tmp_path)], Known()).communication_pct == 50


@cases
def test_fused_pointwise_kernels_named_after_convolutions_are_none():
    profile = analyze([read.read(str(CASES / "compiled.json"))], Known())
    kernels = {one.name: (one.operation, one.tensor_cores) for one in profile.top_kernels}
    assert kernels.pop("triton_tem_fused_mm_7") == ("matrix product", None)
    assert kernels == {
        "triton_poi_fused_convolution_relu_3": ("other", None),
        "triton_per_fused__scaled_dot_product_flash_attention_add_1": ("other", None),
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel"
        "__5x_cublas": ("matrix product", True),
    }
    assert OFF not in titles(profile)
    assert (titles(profile)[0], profile.step_ms) == (
        "Gaps while the host does something else",
        pytest.approx(10, abs=0.01),
    )

"""What kernels are, by their names: a table of real ones, and what no name may do."""

import csv
from pathlib import Path

import pytest

from nightshift_perf.traces.names import Kind, classify, collective, short

TABLE = Path(__file__).with_name("kernel_names.tsv")
TENSOR_CORES = {"yes": True, "no": False, "": None}


def rows():
    with TABLE.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def test_kernels_are_known_by_their_names_or_not_at_all():
    classified = {row["name"]: classify(row["name"]) for row in rows()}
    wanted = {row["name"]: (row["kind"], TENSOR_CORES[row["tensor cores"]], row["precision"] or None) for row in rows()}
    assert len(classified) >= 120
    assert {name: (one.kind, one.tensor_cores, one.precision) for name, one in classified.items()} == wanted


def test_what_inductor_fuses_is_pointwise_whatever_it_is_named_after():
    products = [row["name"] for row in rows() if row["kind"] in (Kind.MATRIX, Kind.COMMUNICATION)]
    for prefix in ("triton_poi_fused_", "triton_red_fused_", "triton_per_fused_", "triton_for_fused_"):
        assert {classify(prefix + name).kind for name in products} == {Kind.OTHER}


@pytest.mark.parametrize(
    ("name", "shortened"),
    [
        (
            "void at::native::(anonymous namespace)::reduce_kernel<512, 1>(float const*)",
            "at::native::anonymous::reduce_kernel",
        ),
        (
            "_ZN17cutlass__5x_cudnn6KernelINS_4conv6kernel23ImplicitGemmConvolutionEEEvNT_6ParamsE",
            "cutlass__5x_cudnn::Kernel",
        ),
        ("_ZN3foo3barEv", "foo::bar"),
        ("sm90_xmma_wgrad_tilesize64x64x32", "sm90_xmma_wgrad_tilesize64x64x32"),
        ("_ZN", "_ZN"),
        (
            "void at::native::(anonymous namespace)::grid_kernel<float, f<int>(a)::{lambda()#1}>(at::Iterator&, int)",
            "at::native::anonymous::grid_kernel",
        ),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD"),
        ("<lambda>", "<lambda>"),
    ],
)
def test_a_kernel_is_shown_without_what_its_template_was_given(name, shortened):
    assert short(name) == shortened


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_reduce"),
        ("void vllm::cross_device_reduce_2stage<__half, 4>(vllm::RankData*)", "all_reduce"),
        ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)", "all_reduce"),
        ("oneccl_allgatherv_pcie", "all_gather"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "reduce_scatter"),
        ("void deep_ep::internode::combine<2, __nv_bfloat16>(int4*)", "all_to_all"),
        ("void deep_ep::intranode::dispatch<8, 768>(int4*)", "all_to_all"),
        ("EpDispatchIntraNodeKernel_fp8_fnuz", "all_to_all"),
        ("ncclDevKernel_SendRecv", "send_recv"),
        ("_allgather_base", "all_gather"),
        ("mscclKernel_Sum_half_Simple_false", "other"),
    ],
)
def test_a_collective_operation_is_known_by_the_name_of_its_kernel(name, operation):
    assert collective(name) == operation

"""What a kernel is, as far as its name tells; a name that no pattern knows is unknown, and never a no."""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a kernel does."""

    COMMUNICATION = "communication"
    MATRIX = "matrix product"
    OTHER = "other"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Class:
    """What a name says of a kernel.

    Attributes:
        kind: what it does; convolutions and attention are matrix products.
        tensor_cores: whether a matrix product runs on tensor cores (AMD: matrix cores); None where the name is silent.
        precision: of its operands (`bf16`, `fp8` ...), of several the narrowest; None where the name is silent.
    """

    kind: Kind
    tensor_cores: bool | None = None
    precision: str | None = None


COLLECTIVES = {
    "all_reduce": ("allreduce", "crossdevicereduce"),
    "all_gather": ("allgather",),
    "reduce_scatter": ("reducescatter",),
    "broadcast": ("broadcast",),
    "all_to_all": ("alltoall", "alltoallv", "dispatch", "combine", "deepep"),
    "send_recv": ("sendrecv",),
    "reduce": ("reduce",),
}
LOW = ("fp4", "fp8", "int8", "bf16", "fp16")  # narrower than what processors without tensor cores compute in

# the first rule that matches decides. Inductor names what it fuses after the operations, so its prefix comes before
# every word: only a template (`tem`) multiplies matrices
RULES: tuple[tuple[Kind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        (Kind.MATRIX, r"^triton_(tem_|mm|bmm|baddbmm|addmm|convolution\dd|flex_(attention|decoding))"),
        (Kind.OTHER, r"^triton_(poi|red|per|for|spl|coo|mix|fused)_|^(loop|input)_\w*fusion|^wrapped_"),
        (Kind.UNKNOWN, r"^triton_unk_"),
        # libraries of pointwise kernels, reductions, sorts, tables and copies
        (Kind.OTHER, r"^(void )?(at|at_cuda_detail|c10|cub|rocprim|hipcub|thrust|hip_?cub|cudf|dh|xgboost)::"),
        (Kind.OTHER, r"multi_tensor_apply|fbgemm_gpu::|split_embedding|dense_embedding|splitKreduce|ReduceSplitK"),
        # products with a vector and outer products only read memory; depthwise convolutions and the attention of one
        # token too
        (Kind.OTHER, r"(?<![a-z])gemv|gemmk1|depthwise|grouped_direct|causal_conv1d|paged_attention_v\d|"
                     r"(Batch|Single)Decode|masked_multihead|^void (dot|reduce_1Block|scal|axpy)_kernel"),
        # steps before and after a product
        (Kind.OTHER, r"fla?sh_(fwd|bwd)\w*(combine|dot_do_o|convert_d|preprocess|postprocess)|(Fla?sh|Fmha)\w*Bwd\w*"
                     r"(Preprocess|Postprocess|OGradDotO|ConvertQGrad)|FmhaFwdSplitKVCombine|_metadata_kernel"),
        (Kind.OTHER, r"compute\w*Offsets|batched_transpose|im2?d?2?col|col2im|cuTensor\w*permut|reshape_and_cache|"
                     r"concat_and_cache|quantize|_quant_kernel|scalePackedTensor|n[ch]\w*Ton[ch]\w*Kernel|flip_filter"),
        # a product that communicates while it multiplies computes
        (Kind.MATRIX, r"(gemm|matmul)_?(all_?reduce|reduce_?scatter|rs|ar)|(all_?gather|ag)_?(gemm|matmul)"),
        (Kind.COMMUNICATION, r"^(void )?(nccl|rccl|msccl|nvshmem|oneccl|hcom|userbuffers|xccl|ishmem|rocshmem)|"
                             r"(?<![a-z])[nr]ccl\w*kernel|deep_ep(?!(::|\d)layout)|"
                             r"(ccl|nvshmem\w*|quickreduce|mori|userbuffers|symm_mem)::"),
        (Kind.COMMUNICATION, r"(?<!block)(?<!warp)(?<!thread)(?<!wave)_?(all_?reduce|all_?gather|reduce_?scatter|"
                             r"all_?to_?all|all2all)|cross_device_(reduce|store|gather)|send_?recv|multimem_|"
                             r"Ep(Dispatch|Combine)(Intra|Inter)Node"),
        (Kind.MATRIX, r"gemm|matmul|nvjet|^Custom\d*_Cijk|^Cijk_|\bmma_sm\d|(?<!sub)(?<!op)tensorop|xmma|convolve|"
                      r"winograd|fprop|dgrad|wgrad|[sh\d]cudnn|^_?bmm_|_bmm_|fused_moe_kernel|moe_mfma|mfma_moe|marlin|"
                      r"fla?sh_?(fwd|bwd|attn|attention|mla|decod)|fmha|(Batch|Single)Prefill|_sdpa_|attention|attn|"
                      r"_mla_|sage_fwd|_mma_|_mm_kernel|conv(2d|3d|_fwd|_bwd|_wrw|_fprop)|_conv(?![a-z])|AsmConv|"
                      r"naive_conv|gtcx"),
        (Kind.OTHER, r"elementwise|pointwise|norm|softmax|bn_(fw|bw)|dropout|embedding|adam|rotary|rope|top_?k|sort|"
                     r"argm(ax|in)|pool|mem(cpy|set)|fill|cop(y|ies)|cast|convert|transpose|permute|silu|gelu|relu|"
                     r"act_and_mul|index|indices|gather|scatter|activation|criterion|optensor|tensorop|loss|"
                     r"histogram|scan|cat_|concat|routing|quant|hadamard|align_block|moe_sum|upsample|interpolat|fft|"
                     r"random|distribution|spin_kernel|bias|scalar"),
    )
)  # fmt: skip

# instructions of tensor cores (HMMA 884 on Volta, 1688 on Turing, 16816 on Ampere, WGMMA on Hopper, UMMA on Blackwell),
# of AMD's matrix cores (MFMA, WMMA; `xdl` and `gtcx` are MIOpen's and CK's words for it), and libraries of nothing else
ON = re.compile(
    r"(?<![a-z0-9])[sdhizq]_?(884|1688|8816|8832|16816|16832|161616)(?!\d)|[sdhi](64|128)x\d+x\d+gemm|"
    r"(?<!sub)(?<!op)tensorop|tensor\d+x\d+x\d+|[hwgsdi]mma(?!t)|u?tcmma|umma_|tcgen05|gmma|mfma|xdl|gtcx|"
    r"_MI[1-9]\d?x\d|nvjet|fla?sh_(fwd|bwd)_|fla?sh::|FlashAttn|FlashMLA|FlashMla|marlin|deep_gemm|"
    r"(Batch|Single)Prefill|mma_sm\d|fmha(Sm|_fwd_hd|_bwd_hd)|Fmha(Fwd|Bwd|Batch)|"
    r"fmha_cutlass[FB]_(b?f16_\w*sm(7|8)|f32_\w*sm8)|_sdpa_sm|bmm_\w+_m\d+x\d+x\d+",
    re.IGNORECASE,
)
# kernels of the ordinary cores, whatever type they read; `s884gemm` is no `sgemm`
OFF = re.compile(
    r"(?<![a-z0-9])[sdczh](gemm|cudnn|cgemm)|gcgemm|simt|ffma|_dfma|_hfma|(dgrad|wgrad)(2d_alg|\w*engine)|"
    r"(im|ex)plicit_convolve|precomputed_convolve|winograd_nonfused\w*::\w+<float|gemmSN_|naive_conv|"
    r"fmha_cutlass[FB]_f32_\w*sm[57]|gemm_dl|AsmConv(?!\w*xdl)|magma_",
    re.IGNORECASE,
)
PRECISIONS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (precision, re.compile(pattern, re.IGNORECASE))
    for precision, pattern in (
        ("fp4", r"e2m1|nv_?fp4|mx_?fp4|fp4|f4gemm"),
        ("fp8", r"e4m3|e5m2|fp8(?!KV)|float8|f8f8|nvjet_(sm\d+_)?q"),
        ("int8", r"s8s8|u8u8|int8|(?<![a-z])i8i8|imma|i8816|i16832|i16864|w8a8_?int|a8w8_int"),
        ("bf16", r"bf16|bfloat16|nvjet_(sm\d+_)?t|DF16b"),
        ("fp16", r"(?<!b)fp?16|half|[^a-z]h(884|1688|16816|gemm)|nvjet_(sm\d+_)?h"),
        ("tf32", r"tf(loat)?32|(?<![a-z0-9])s_?1688"),
        ("fp64", r"dgemm|(?<![a-z0-9])d_?884|zgemm|<double"),
        ("fp32", r"f32f32|fp32|sgemm|scudnn|cgemm|<float|_f32_|ffma"),
    )
)
# letters of rocBLAS' and hipBLASLt's types: of the operands, of the result, of the accumulation
TENSILE = re.compile(r"Cijk_\w{4}_\w{4}_([A-Z0-9]+)")
TENSILE_TYPES = {
    "F8": "fp8", "B8": "fp8", "F4": "fp4", "I8": "int8", "H": "fp16", "B": "bf16", "X": "tf32", "S": "fp32",
    "D": "fp64", "C": "fp32", "Z": "fp64",
}  # fmt: skip

MANGLED = re.compile(r"_ZN(\d.*)")  # https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling


@functools.cache
def classify(name: str) -> Class:
    """Return what a name says of a kernel."""
    kind = next((kind for kind, pattern in RULES if pattern.search(name)), Kind.UNKNOWN)
    if kind is not Kind.MATRIX:
        return Class(kind)
    precision = _precision(name)
    return Class(kind, _tensor_cores(name, precision), precision)


def _precision(name: str) -> str | None:
    if tensile := TENSILE.search(name):
        types = tensile[1]
        return TENSILE_TYPES.get(types[:2]) or TENSILE_TYPES.get(types[:1])
    return next((precision for precision, pattern in PRECISIONS if pattern.search(name)), None)


def _tensor_cores(name: str, precision: str | None) -> bool | None:
    if OFF.search(name):
        return False
    if ON.search(name):
        return True
    if "Cijk_" in name and re.search(r"_MT\d", name):  # Tensile names the matrix instruction, `_MI`, where it has one
        return False
    return True if precision in LOW or precision == "tf32" else None


def collective(name: str) -> str:
    """Return the collective operation of a kernel or of NCCL's own name of it, such as `all_reduce`."""
    plain = re.sub(r"[^a-z]", "", name.lower())
    return next((key for key, parts in COLLECTIVES.items() if any(part in plain for part in parts)), "other")


def short(name: str) -> str:
    """Return a kernel's name without the return type, template arguments and parameters, for people."""
    if mangled := MANGLED.match(name):
        return "::".join(_identifiers(mangled[1]))
    plain = name.removeprefix("void ").replace("(anonymous namespace)", "anonymous")
    depth, kept = 0, []
    for letter in plain:
        depth += letter == "<"
        if not depth:
            if letter == "(":
                break
            kept.append(letter)
        depth -= letter == ">" and depth > 0
    return "".join(kept).strip() or name


def _identifiers(mangled: str) -> Iterator[str]:
    """Yield the parts of a nested name in the C++ ABI's spelling, each after its length, up to template arguments."""
    while length := re.match(r"\d+", mangled):
        end = length.end() + int(length[0])
        yield mangled[length.end() : end]
        mangled = mangled[end:]

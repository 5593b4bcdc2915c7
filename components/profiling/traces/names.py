"""What a kernel is, by its name: the only thing that every profiler knows of it."""

import re

COMMUNICATION = re.compile(r"^(void )?(nccl|rccl|nvshmem)", re.IGNORECASE)
COLLECTIVES = {
    "all_reduce": "allreduce",
    "all_gather": "allgather",
    "reduce_scatter": "reducescatter",
    "broadcast": "broadcast",
    "all_to_all": "alltoall",
    "send_recv": "sendrecv",
    "reduce": "reduce",
}
MATRIX = re.compile(
    r"(?<!fb)gemm|conv(?!ert)|cudnn_|winograd|fprop|dgrad|wgrad|cutlass|xmma|nvjet|flash|fmha|attention", re.IGNORECASE
)
# shapes of the tensor cores' instructions (HMMA 884 on Volta, 1688 on Turing, 16816 on Ampere, GMMA on Hopper), and
# libraries that use nothing else
TENSOR = re.compile(
    r"884|1688|16816|16832|hmma|imma|gmma|tensorop|tensor16x8|nvjet|flash_(fwd|bwd)|fmha_cutlass|mma_sm\d",
    re.IGNORECASE,
)


def is_communication(name: str) -> bool:
    """Return whether a kernel moves data between ranks."""
    return COMMUNICATION.search(name) is not None


def is_matrix(name: str) -> bool:
    """Return whether a kernel is a matrix product or a convolution, so that tensor cores could compute it."""
    return MATRIX.search(name) is not None


def uses_tensor_cores(name: str) -> bool:
    """Return whether a kernel computes on tensor cores."""
    return TENSOR.search(name) is not None


def collective(name: str) -> str:
    """Return the collective operation of a kernel or of NCCL's own name of it, such as `all_reduce`."""
    plain = re.sub(r"[^a-z]", "", name.lower())
    return next((one for one, part in COLLECTIVES.items() if part in plain), "other")


def short(name: str) -> str:
    """Return a kernel's name without the return type, template arguments and parameters, for people."""
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

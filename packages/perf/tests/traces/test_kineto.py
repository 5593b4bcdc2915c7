"""Traces of torch.profiler in every dialect, whole and broken."""

import gzip
import json
from pathlib import Path

import pytest

from nightshift.runtime.errors import UserError
from nightshift_perf.traces import kineto, stream, texts, timeline
from nightshift_perf.traces.analysis import Known, analyze
from nightshift_perf.traces.products import count
from nightshift_perf.traces.trace import DeviceWork, Host
from packages.perf.tests.traces.samples import LOADER, TO_DEVICE, Events, read


def small(dialect, zero):
    events = Events(dialect, zero).steps((0, 100), (100, 200))
    events.add("op", LOADER, 5, 10).add("op", "aten::mm", 20, 5)
    events.kernel("sgemm", 30, 20.5, launched=(22, 2)).copy(TO_DEVICE, 60, 10, launched=(58, 12), bytes=4096)
    return events.kernel("Memset (Device)", 80, 1, kind="set")


@pytest.mark.parametrize("dialect", ["old", "new"])
@pytest.mark.parametrize("zero", [1_623_143_093_496_523, 4_458_676_522_690.655, 0])
def test_every_dialect_says_the_same(dialect, zero, tmp_path):
    trace = small(dialect, zero).trace(tmp_path)

    assert trace.steps.round(2).tolist() == [[0, 100], [100, 200]]
    assert [DeviceWork(kind).name for kind in trace.work["kind"]] == ["KERNEL", "COPY", "SET"]
    # a double of today's microseconds since 1970 is exact to a quarter
    assert timeline.spans(trace.work).ravel() == pytest.approx([30, 50.5, 60, 70, 80, 81], abs=0.26)
    assert trace.work["bytes"].tolist() == [0, 4096, 0]
    assert trace.work["stream"].tolist() == [7, 7, 7]
    calls = trace.host[trace.host["kind"] == Host.CALL]
    assert calls["cause"].tolist() == trace.work["cause"].tolist()[:2]


def test_a_trace_of_a_training_on_an_h200_says_where_its_time_goes():
    """A step of ResNet-50 in bf16 with 128 images, as PyTorch 2.11 recorded it for `nightshift perf tune`."""
    path = Path(__file__).with_name("resnet50-h200.json.gz")
    with path.open("rb") as file:
        profiled = analyze([kineto.read(file, path.name)], Known())

    assert (round(profiled.step_ms, 1), round(profiled.gpu_busy_pct, 1)) == (48.6, 64.2)
    assert profiled.diagnosis[0].title == "Gaps between kernels (launch-bound)"
    assert (profiled.tensor_core_pct, profiled.unknown_pct < 1) == (100, True)
    assert "batch_norm" in profiled.top_kernels[0].name


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["json", "json.gz"])
@pytest.mark.parametrize("piece", [64, 500, 8 << 20])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_trace_read_in_pieces_is_the_trace_read_at_once(pack, piece, indent, tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "PIECE", piece)
    events = small("new", 0.0)
    events.add("op", 'a "},{" [ in a \\ name', 90, 1, list=[{"a": 1}, {"b": [{}, {}]}])
    about = {"distributedInfo": {"rank": 3, "world_size": 8}}
    value = {**about, "traceEvents": events.events, "deviceProperties": [{"id": 0, "name": "V100"}, {"id": 1}]}
    trace = read(tmp_path, pack(json.dumps(value, indent=indent).encode()))

    assert (len(trace.work), len(trace.host)) == (3, 7)
    assert 'a "},{" [ in a \\ name' in trace.names
    assert (trace.origin.rank, trace.origin.world_size, trace.origin.devices[0]) == (3, 8, "V100")


def test_a_bare_list_of_events_is_a_trace_too(tmp_path):
    assert len(read(tmp_path, json.dumps(small("new", 0.0).events).encode()).work) == 3


BROKEN = {
    "nothing": (b"", "is empty"),
    "blanks": (b"  \n", "is empty"),
    "no trace": (b'{"a": 1}', "no list 'traceEvents'"),
    "a program": (b"\x7fELF\x02\x01\x01\x00", "no list 'traceEvents'"),
    "a text": (b"hello", "no list 'traceEvents': its text begins with b'hello'"),
    "a web page": (b"<!DOCTYPE html><html>Sign in</html>", "is a web page"),
    "a zip archive": (b"PK\x03\x04....", "unpack it first"),
    "two traces": (b'{"traceEvents": []}{"traceEvents": []}', "two traces"),
    "no events": (b'{"traceEvents": []}', "none of the CPU or of a GPU"),
    "only metadata": (b'{"traceEvents": [{"ph": "M", "name": "process_name"}]}', "none of the CPU or of a GPU"),
    "args that are no object": (b'{"traceEvents": [{"ph": "X", "args": 3}]}', "byte 17.*args"),
    "an event that is no object": (b'{"traceEvents": [3]}', "byte 17.*Expected `object`"),
    "a broken end": (b'{"traceEvents": [{"ph": "X"}], "a": [}', "broken near byte 28"),
    "a deep nest": (b'{"traceEvents": [' + b"[" * 100_000, "truncated or broken"),
}


@pytest.mark.parametrize(("content", "message"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_trace_is_refused_in_one_line(content, message, tmp_path):
    with pytest.raises(UserError, match=message) as caught:
        read(tmp_path, content)
    assert "\n" not in str(caught.value)
    assert "trace.json" in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["json", "json.gz"])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.99])
def test_a_trace_that_was_cut_off_is_refused(pack, share, tmp_path):
    events = small("new", 0.0)
    for number in range(200):
        events.add("op", f"aten::op_{number}", number, 1)
    whole = pack(json.dumps(events.value(), indent=1).encode())
    with pytest.raises(UserError, match="truncated"):
        read(tmp_path, whole[: int(share * len(whole))])


def test_an_event_without_an_end_is_not_read_into_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "PIECE", 1 << 12)
    monkeypatch.setattr(stream, "LONGEST", 1 << 16)
    with pytest.raises(UserError, match=r"broken at byte 37 .*Unterminated"):
        read(tmp_path, b'{"traceEvents": [{"ph": "X", "name": "' + b"x" * (1 << 18) + b'"}]}')


def test_events_with_a_negative_duration_are_left_out_and_counted(tmp_path):
    trace = small("new", 0.0).kernel("bad", 90, -5).add("op", "worse", 90, None).trace(tmp_path)
    assert "bad" not in trace.names
    assert trace.caveats == ["2 events have no time or a negative duration; they are left out."]


DEVICES = {  # categories of kernels, copies, sets and calls, the call that waits, and c10::DeviceType
    "CUDA, PyTorch 1.8": ("Kernel", "Memcpy", "Memset", "Runtime", "cudaDeviceSynchronize", 1),
    "CUDA": ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cudaStreamSynchronize", 1),
    "CUDA's driver": ("kernel", "gpu_memcpy", "gpu_memset", "cuda_driver", "cuStreamSynchronize", 1),
    "ROCm": ("kernel", "gpu_memcpy", "gpu_memset", "hip_runtime", "hipDeviceSynchronize", 6),
    "XPU": ("kernel", "gpu_memcpy", "gpu_memset", "xpu_runtime", "urQueueFinish", 12),
    "MTIA": ("mtia_ccp_events", "mtia_ccp_events", "gpu_memset", "mtia_runtime", "streamSynchronize", 17),
    "HPU": ("hccl", "gpu_memcpy", "gpu_memset", "hpu_op", "synSynchronize", 18),
    "PrivateUse1": ("kernel", "gpu_memcpy", "gpu_memset", "privateuse1_runtime", "aclrtSynchronizeStream", 20),
    "CUPTI's names": ("CONCURRENT_KERNEL", "GPU_MEMCPY", "GPU_MEMSET", "CUDA_RUNTIME", "cudaStreamSynchronize", 1),
}


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_every_device_is_a_device(device, tmp_path):
    kernel, copy, memset, call, wait, kind = device
    events = Events(zero=0.0).steps((0, 1000))
    events.kernel("matmul", 0, 500, launched=(-5, 3)).kernel("dma_request", 500, 100, kind="copy")
    events.kernel("fill", 600, 100, kind="set").add("call", wait, 10, 690).kernel("matmul", 900, 100, launched=(890, 3))
    renamed = {"kernel": kernel, "gpu_memcpy": copy, "gpu_memset": memset, "cuda_runtime": call}
    for event in events.events:
        event["cat"] = renamed.get(event["cat"], event["cat"])
    memory = {"Device Type": kind, "Device Id": 0, "Bytes": 8, "Total Allocated": 64, "Total Reserved": 128}
    events.events.append({"ph": "i", "name": "[memory]", "ts": 5, "pid": 100, "args": memory})
    for waits in ("gpu_user_annotation", "cuda_sync", "mtia_ccp_events"):
        events.kernel("event_wait", 0, 1000)
        events.events[-1]["cat"] = waits
    trace = events.trace(tmp_path)
    profile = analyze([trace], Known())

    assert (profile.gpu_busy_pct, profile.memory[0].allocated_bytes) == (80, 64)
    assert profile.diagnosis[0].title == "Synchronizations"
    assert {DeviceWork(one).name for one in trace.work["kind"]} == {"KERNEL", "COPY", "SET"}
    assert not any("category" in one for one in profile.caveats)


def test_a_category_of_devices_that_nobody_knows_is_named(tmp_path):
    events = small("new", 0.0).kernel("what", 90, 5)
    events.events[-1]["cat"] = "npu_thing"
    assert (
        "Events on a device whose category is not known are left out: 1 of 'npu_thing'."
        in events.trace(tmp_path).caveats
    )


def test_events_that_begin_and_end_apart_are_events(tmp_path):
    pairs = []
    for event in small("new", 0.0).events:
        dur = event.pop("dur")
        pairs += [(event["ts"], 1, event | {"ph": "B"})]
        pairs += [
            (event["ts"] + dur, 0, {key: event[key] for key in ("pid", "tid")} | {"ph": "E", "ts": event["ts"] + dur})
        ]
    pairs.sort(key=lambda pair: pair[:2])
    trace = read(tmp_path, json.dumps([event for _, _, event in pairs]).encode())
    first = trace.steps[0, 0]
    assert (timeline.spans(trace.work) - first).ravel() == pytest.approx([30, 50.5, 60, 70, 80, 81])
    assert (trace.steps - first).tolist() == [[0, 100], [100, 200]]


def test_memory_of_both_dialects_becomes_levels(tmp_path):
    def point(at, **args):
        return {"ph": "i", "name": "[memory]", "ts": at, "args": {"Device Id": 0} | args}

    old = small("old", 0.0)
    old.events += [
        point(at, **{"Device Type": 1, "Bytes": size}) for at, size in ((1, 512), (2, -512), (3, -64), (4, 256))
    ]
    old.events.append(point(5, **{"Device Type": 0, "Bytes": 9999}))
    assert old.trace(tmp_path).memory["allocated"].tolist() == [576, 64, 0, 256]

    new = small("new", 0.0)
    new.events.append(point(1, **{"Device Type": 1, "Bytes": 8, "Total Allocated": 4096, "Total Reserved": 8192}))
    assert new.trace(tmp_path).memory[["allocated", "reserved"]].tolist() == [(4096, 8192)]


def test_a_matrix_product_is_counted_by_the_shapes_of_its_operation():
    counted = count("aten::addmm", [[4], [8, 16], [16, 4], []], ["c10::Half"] * 3)
    assert (counted.flops, counted.bytes) == (2 * 8 * 16 * 4, 2 * (8 * 16 + 16 * 4 + 8 * 4))
    batched = count("aten::bmm", [[3, 8, 16], [3, 16, 4]], ["float", "float"])
    assert (batched.flops, batched.bytes) == (3 * 2 * 8 * 16 * 4, 3 * 4 * (8 * 16 + 16 * 4 + 8 * 4))


@pytest.mark.parametrize("shapes", [None, [], [[8, 16]], [[8, 16], [4, 4]], "no", [[8, "x"], ["x", 4]]])
def test_an_operation_without_its_shapes_is_not_counted(shapes):
    assert count("aten::mm", shapes, ["float", "float"]) is None

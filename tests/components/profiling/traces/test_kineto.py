"""Traces of torch.profiler in every dialect, whole and broken."""

import gzip
import json

import pytest

from components.common.errors import UserError
from components.profiling.traces import stream, texts, timeline
from components.profiling.traces.products import count
from components.profiling.traces.trace import Host, Work
from tests.components.profiling.traces.samples import LOADER, TO_DEVICE, Events, read


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
    assert [Work(kind).name for kind in trace.work["kind"]] == ["KERNEL", "COPY", "SET"]
    # a double of today's microseconds since 1970 is exact to a quarter
    assert timeline.spans(trace.work).ravel() == pytest.approx([30, 50.5, 60, 70, 80, 81], abs=0.26)
    assert trace.work["bytes"].tolist() == [0, 4096, 0]
    assert trace.work["stream"].tolist() == [7, 7, 7]
    calls = trace.host[trace.host["kind"] == Host.CALL]
    assert calls["cause"].tolist() == trace.work["cause"].tolist()[:2]


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
    "no JSON": (b"ELF...", "no list 'traceEvents'"),
    "no events": (b'{"traceEvents": []}', "none of the CPU or of a GPU"),
    "only metadata": (b'{"traceEvents": [{"ph": "M", "name": "process_name"}]}', "none of the CPU or of a GPU"),
    "args that are no object": (b'{"traceEvents": [{"ph": "X", "args": 3}]}', "byte 17.*args"),
    "an event that is no object": (b'{"traceEvents": [3]}', "byte 17.*Expected `object`"),
    "a broken end": (b'{"traceEvents": [{"ph": "X"}], "a": [}', "broken near byte 28"),
    "a deep nest": (b'{"traceEvents": [' + b"[" * 100_000, "truncated or broken"),
}


@pytest.mark.parametrize(("content", "said"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_trace_is_refused_in_one_line(content, said, tmp_path):
    with pytest.raises(UserError, match=said) as caught:
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

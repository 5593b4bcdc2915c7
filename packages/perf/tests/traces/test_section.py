"""What the profile of traces shows."""

from components.reporting import report
from nightshift.contracts.section import Chart, TableBlock
from nightshift_perf.traces.analysis import Known, analyze
from nightshift_perf.traces.ceiling import KernelCounters
from nightshift_perf.traces.section import build, commands
from packages.perf.tests.traces.samples import Events


def profile(tmp_path, sizes=(1, 2)):
    def trace(size):
        events = Events().steps((0, 1000), (1000, 2000)).kernel("void my::sgemm<int>(a)", 0, 1900, launched=(-9, 5))
        for at in (1, 900, 1500):
            args = {
                "Device Type": 1,
                "Device Id": 0,
                "Bytes": 1,
                "Total Allocated": at * 10**6,
                "Total Reserved": 3 * 10**9,
            }
            events.events.append({"ph": "i", "name": "[memory]", "ts": events.zero + at, "args": args})
        about = {"distributedInfo": {"rank": 0, "world_size": size}}
        return events.trace(tmp_path, deviceProperties=[{"id": 0, "name": "NVIDIA L4"}], **about)

    counted = [KernelCounters("sgemm", 1e9, 1e8, 1000), KernelCounters("relu", 1e5, 1e8, 500)]
    return analyze([trace(size) for size in sizes], Known(1e9, "bf16", "", counted))


def blocks(trace_profile, kind):
    return {block.title: block for block in build(trace_profile).blocks if isinstance(block, kind)}


def test_every_picture_is_drawn(tmp_path):
    trace_profile = profile(tmp_path)
    charts = blocks(trace_profile, Chart)
    assert list(charts) == [
        "GPU busy over the steps",
        "Memory of the GPU (dashed: reserved)",
        "Roofline of the l4, bf16",
        "Step time by number of GPUs (dashed: fitted)",
    ]
    roof = charts["Roofline of the l4, bf16"]
    assert (roof.x.scale, roof.series[0].points[-1][1]) == ("log", 121)
    html = report.alone(build(trace_profile), str(tmp_path))
    assert html.count("<figure") == len(charts) + 1
    assert "nan" not in html


def test_tables_name_kernels_in_short(tmp_path):
    tables = blocks(profile(tmp_path), TableBlock)
    assert tables["Top kernels"].rows[0].cells[0] == "my::sgemm"
    assert tables["Ranks"].rows[0].cells[0] == "0"


def test_commands_look_at_the_kernel_that_takes_most(tmp_path):
    lines = commands(profile(tmp_path))
    assert lines[0].startswith("nsys profile --trace=cuda,nvtx")
    assert "ncu --kernel-name regex:sgemm --launch-count" in lines[2]

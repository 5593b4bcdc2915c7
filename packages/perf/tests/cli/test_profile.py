"""`nightshift perf profile`: traces or a program in, a page out."""

import json
import shlex

import pytest

from nightshift.contracts.profile import TraceProfile
from nightshift.contracts.section import Section
from nightshift.runtime.errors import UserError
from nightshift_perf.contracts import TraceChanges
from packages.perf.tests.traces.samples import Events, save
from tests.pipelines.samples import called, command


def events():
    steps = Events().steps((0, 1000), (1000, 2000))
    return steps.kernel("sgemm<float>", 0, 600, launched=(-5, 3)).kernel("sgemm<float>", 1000, 600, launched=(990, 3))


def run(*flags):
    return command("perf", "profile", *map(str, flags))


def test_a_trace_becomes_a_profile_a_section_and_a_page(tmp_path):
    trace, folder = (
        save(tmp_path / "trace.json.gz", events(), deviceProperties=[{"id": 0, "name": "L4"}]),
        tmp_path / "out",
    )

    done = run("--trace", trace, "--output", folder, "--flops-per-step", "1e9", "--precision", "bf16")

    assert done.returncode == 0, done.stderr
    profile = TraceProfile.read(str(folder / "profile.json"))
    assert (profile.step_ms, profile.gpu_busy_pct, profile.sources) == (1.0, 60, [trace])
    assert profile.mfu_pct == pytest.approx(100 / 121, rel=1e-3)
    assert Section.read(str(folder / "profile.section.json")).highlights[0].value == 1.0
    page = (folder / "report.html").read_text()
    assert "Gaps between kernels (launch-bound): 40.0 % of the step can be won" in page
    assert "sgemm" in page
    first, *_, report, after = done.stdout.splitlines()[1:]
    assert first.startswith("1.0 ms a step, GPU busy 60.0 %")
    assert report == f"Report: {folder}/report.html"
    assert after.startswith("Next: fix the first")
    assert {path.name for path in folder.iterdir()} == {"profile.json", "profile.section.json", "report.html"}


def test_several_traces_are_several_ranks(tmp_path):
    traces = [
        save(tmp_path / f"rank{number}.json", events(), distributedInfo={"rank": number, "world_size": 2})
        for number in range(2)
    ]
    called("perf", "profile", "--trace", *traces, "--output", str(tmp_path / "out"))
    assert [rank.rank for rank in TraceProfile.read(str(tmp_path / "out/profile.json")).ranks] == [0, 1]


@pytest.mark.parametrize(
    ("names", "about"),
    [
        (("before.json", "after.json"), ({}, {})),
        (("a.json", "b.json"), ({"rank": 0, "world_size": 2}, {"rank": 0, "world_size": 2})),
        (("rank0.json", "other.json"), ({}, {})),
    ],
)
def test_traces_that_do_not_say_that_they_are_ranks_are_not_averaged(names, about, tmp_path):
    traces = [save(tmp_path / name, events(), distributedInfo=info) for name, info in zip(names, about, strict=True)]
    with pytest.raises(UserError, match=f"{names[0]}.*{names[1]}.*--before TRACE --after TRACE"):
        called("perf", "profile", "--trace", *traces, "--output", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_training_is_compared_with_itself_before_a_change(tmp_path):
    before, folder = save(tmp_path / "before.json", events()), tmp_path / "out"
    faster = Events().steps((0, 800), (800, 1600))
    after = save(tmp_path / "after.json", faster.kernel("sgemm<float>", 0, 600).kernel("sgemm<float>", 800, 600))
    done = run("--before", before, "--after", after, "--output", folder)
    assert done.returncode == 0, done.stderr
    changes = TraceChanges.read(str(folder / "changes.json"))
    assert (changes.verdict, changes.pairs, changes.step.saved_ms) == ("faster", 2, 0.2)
    assert "Faster: 1 -> 0.8 ms a step (1.25 times as fast)" in done.stdout
    assert "Faster: 1 -&gt; 0.8 ms a step" in (folder / "report.html").read_text()
    assert {path.name for path in folder.iterdir()} == {"changes.json", "changes.section.json", "report.html"}


def test_names_of_files_may_say_the_ranks(tmp_path):
    traces = [save(tmp_path / f"train_rank{number}.json", events()) for number in range(2)]
    called("perf", "profile", "--trace", *traces, "--output", str(tmp_path / "out"))
    assert len(TraceProfile.read(str(tmp_path / "out/profile.json")).ranks) == 2


def test_a_mistake_is_one_line_and_leaves_nothing(tmp_path):
    (tmp_path / "trace.json").write_text('{"traceEvents": [{"ph": "X", ')
    done = run("--trace", tmp_path / "trace.json", "--output", tmp_path / "out")
    assert done.returncode == 2
    assert "truncated" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ([], "--trace FILE_OR_URI"),
        (["--before", "a.json"], "belong together"),
        (["--before", "a.json", "--after", "b.json", "--trace", "c.json"], "belong together"),
        (["--trace", "missing.json"], "missing.json does not exist"),
        (["--trace", "train.nsys-rep"], "nsys export --type sqlite"),
        (["--trace", "kernels.ncu-rep"], "--csv --page raw"),
        (["--command", "./train.sh"], "nsys profile"),
        (["--command", "python"], "nsys profile"),
        (["--trace", "x", "--flops-per-step", "many"], "--flops-per-step many"),
        (["--trace", "x", "--flops-per-step", "-1"], "--flops-per-step -1"),
    ],
)
def test_what_cannot_be_profiled_is_refused_with_the_next_step(flags, reason, tmp_path):
    with pytest.raises(UserError, match=reason):
        called("perf", "profile", *flags, "--output", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_command_is_recorded_and_explained(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(
        "import sys, torch\nfrom torch.profiler import record_function\n"
        "for step in range(int(sys.argv[1])):\n    with record_function(f'ProfilerStep#{step}'):\n"
        "        torch.ones(64, 64) @ torch.ones(64, 64)\n"
    )
    done = run("--command", shlex.join(["python", str(program), "3"]), "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    profile = TraceProfile.read(str(tmp_path / "out/profile.json"))
    assert len(profile.step_times_ms) == 3
    assert "aten::mm" in [operation.name for operation in profile.top_operations]
    assert (tmp_path / "out/trace.json.gz").exists()


def test_a_command_that_fails_says_so(tmp_path):
    program = tmp_path / "train.py"
    program.write_text("raise SystemExit('no data')")
    with pytest.raises(UserError, match="ended with no data"):
        called("perf", "profile", "--command", str(program), "--output", str(tmp_path / "out"))


def test_uris_are_read_and_written(tmp_path):
    save(tmp_path / "trace.json", events())
    called("perf", "profile", "--trace", f"file://{tmp_path}/trace.json", "--output", f"file://{tmp_path}/out")
    assert json.loads((tmp_path / "out/profile.json").read_text())["step_ms"] == 1.0

"""The trainer beside others, in ratios from one run; `kills`, `plans` and `machines` are too long for the tests.

    python -m benchmarks.trainer [batches] [mlp] [loop] [ahead] [table] [ddp] [plans] [memory] [kills] [machines]

CPU seconds count where other work shares the cores; wall seconds stand beside them.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks import figures
from components.training import __main__ as training_step
from components.training import component
from nightshift.config.neural import Trainer
from nightshift.items.shards import Shards
from nightshift.models.neural import data, devices, processes, trainer
from nightshift.models.neural.checkpoints import Checkpoints
from nightshift.models.neural.data import Gather, GatherDataset, ResidentDataset, Take, TrainingDataset
from nightshift.models.neural.preemption import PreemptionNotice
from nightshift.models.neural.replica import Replica
from nightshift.models.neural.trainer import NetworkTraining
from nightshift.models.recipes import mlp
from nightshift.models.recipes import resnet as images
from nightshift.models.recipes.mlp import MLP, MLPParameters
from nightshift.models.recipes.resnet import ResNet
from nightshift.runtime import step
from nightshift.runtime.context import StepContext
from nightshift_testkit.cluster.kinds import POD
from nightshift_testkit.servers import free_port
from tests.components.training import machines as site
from tests.components.training import samples
from tests.components.training.test_step import flags, scores
from tests.nightshift.models.neural import census, elastic
from tests.nightshift.models.neural.resumable import STEPS

CPU = torch.device("cpu")
WIDTH = 15  # inputs of the fraud example
KILLS = 20
console = Console(width=110)


def rows(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(count, WIDTH)).astype(np.float32)
    return matrix, (matrix[:, 0] * matrix[:, 1] > 0).astype(np.int8)


def resident(count: int, size: int) -> ResidentDataset:
    return ResidentDataset(*mlp.resident(*rows(count), CPU), size)


def time_call(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def compare_variants(count: int, variants: dict[str, Callable[[], object]], rounds: int) -> list[figures.Row]:
    """Return how many times as fast the first variant is as each other one, in turn: medians, in CPU seconds."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, work in variants.items():
            times[name].append(time_call(work)[1])
    first, *others = times
    speed = count / statistics.median(times[first])
    return [
        {"what": first, "beside": name, "rows per CPU s": round(speed), "its": round(count / statistics.median(its))}
        | {"ratio": statistics.median(one / own for own, one in zip(times[first], its, strict=True))}
        for name, its in ((name, times[name]) for name in others)
    ]


def batches() -> list[figures.Row]:
    """Tabular batches, without a model."""
    count = 50_000
    data = resident(count, 256)
    loader = DataLoader(TensorDataset(data.inputs, data.labels), batch_size=256, shuffle=True)
    whole = {
        "tabular batches without a model": lambda: [0 for _ in data.epoch()],
        "DataLoader over samples": lambda: [0 for _ in loader],
    }
    return compare_variants(count, whole, 7)


def mlp_training() -> list[figures.Row]:
    """The same architecture, batch, precision, optimizer, threads and epochs."""
    count, parameters = 50_000, MLPParameters(epochs=2)
    matrix, labels = rows(count)

    def ours() -> None:
        with devices.reproducible(0, parameters.threads):
            trainer.fit(Replica(MLP(WIDTH, parameters), CPU), resident(count, parameters.batch_size))

    def sklearn() -> None:
        model = MLPClassifier(
            (parameters.hidden,),
            batch_size=parameters.batch_size,
            learning_rate_init=parameters.learning_rate,
            max_iter=parameters.epochs,
            n_iter_no_change=1000,
            alpha=0,
        )
        with threadpool_limits(1):
            model.fit(matrix, labels)

    def per_sample() -> None:
        data = resident(count, parameters.batch_size)
        loader = DataLoader(TensorDataset(data.inputs, data.labels), parameters.batch_size, shuffle=True)
        with devices.reproducible(0, parameters.threads):
            for _ in range(parameters.epochs):
                bare(MLP(WIDTH, parameters), loader)

    warnings.filterwarnings("ignore", message="Stochastic Optimizer: Maximum iterations")
    variants = {
        "training an MLP": ours,
        "scikit-learn's MLPClassifier": sklearn,
        "a loop over a DataLoader of samples": per_sample,
    }
    return compare_variants(count * parameters.epochs, variants, 5)


def bare(recipe: MLP, data: object) -> None:
    """Forward, backward, step, and nothing else."""
    model = recipe.model()
    optimizer = torch.optim.Adam(model.parameters(), lr=recipe.fit.learning_rate, fused=True)
    loss = nn.BCEWithLogitsLoss()
    for inputs, labels, *_ in data:
        optimizer.zero_grad()
        loss(model(inputs).flatten(), labels).backward()
        optimizer.step()


def loop() -> list[figures.Row]:
    """What the loop adds to forward, backward and step, with checkpoints and progress on."""
    count, parameters = 100_000, MLPParameters(epochs=1)
    data, recipe = resident(count, parameters.batch_size), MLP(WIDTH, parameters)
    with tempfile.TemporaryDirectory() as folder, devices.reproducible(0, 1):
        kept = Checkpoints(folder, 3600, PreemptionNotice())
        variants = {
            "the loop with progress and checkpoints": lambda: trainer.fit(Replica(recipe, CPU), data, kept),
            "forward, backward, step alone": lambda: bare(recipe, data.epoch()),
        }
        return compare_variants(count, variants, 15)


def table() -> list[figures.Row]:
    """A table that is gathered from the host in blocks, beside one on the device as a whole: at least 0.9."""
    count, parameters = 200_000, MLPParameters(epochs=1)
    recipe, (matrix, labels) = MLP(WIDTH, parameters), rows(count)
    whole = resident(count, parameters.batch_size)
    gather = data.gather_streamed(matrix.__getitem__, matrix[0].nbytes, CPU)
    gathered = GatherDataset(gather, mlp.targets(labels, CPU), parameters.batch_size)
    with devices.reproducible(0, 1):
        variants = {
            "an MLP on a table gathered from the host": lambda: trainer.fit(Replica(recipe, CPU), gathered),
            "the table on the device as a whole": lambda: trainer.fit(Replica(recipe, CPU), whole),
        }
        return compare_variants(count, variants, 9)


SIDE, IMAGES = 224, 768


def ahead() -> None:
    """Images that stay on disk, gathered ahead of the steps, beside gathered when a step asks for them."""
    small = images.ResNetParameters(width=8, stages="1,1", stem="large", batch_size=32, epochs=1, threads=1)
    recipe, labels = ResNet("parameters", SIDE, 3, 10, small), torch.randint(10, (IMAGES,))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "day.npy"
        np.save(file, np.random.default_rng(0).integers(0, 256, (IMAGES, SIDE, SIDE, 3), dtype=np.uint8))
        for is_cold in (False, True):
            timings: dict[str, list[tuple[float, float]]] = {"asked": [], "ahead": [], "none": []}
            for _ in range(7):
                for name, epochs in timings.items():
                    shards = map_shards(file, is_cold)
                    gather = gathers(name, shards.take, shards.width)
                    epochs.append(epoch(recipe, GatherDataset(gather, labels, small.batch_size)))
            console.print(f"{IMAGES} images {'read from the disk' if is_cold else 'in the page cache'}")
            for name, title in (("ahead", "batches gathered ahead"), ("none", "no gathering at all")):
                wall, cpu = (
                    statistics.median(a[i] / b[i] for a, b in zip(timings["asked"], timings[name], strict=True))
                    for i in (0, 1)
                )
                console.print(f"    {title}: an epoch is {wall:.3f} times as fast, {cpu:.3f} times in CPU seconds")


def map_shards(file: Path, is_cold: bool) -> Shards:
    """A shard whose pages are in memory, or nowhere but on the disk."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        if is_cold:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return Shards([np.load(file, mmap_mode="r")])


def gathers(name: str, take: Take, width: int) -> Gather:
    """Gather ahead, as asked for, or the same rows again and again."""
    if name == "ahead":
        return data.gather_streamed(take, width, CPU)
    if name == "asked":
        return lambda rows, sizes, skip: (
            torch.from_numpy(take(indices.numpy())) for indices in torch.split(rows, sizes)[skip:]
        )
    held = torch.zeros((32, SIDE, SIDE, 3), dtype=torch.uint8)
    return lambda _, sizes, skip: (held[:size] for size in sizes[skip:])


def epoch(recipe: ResNet, data: TrainingDataset) -> tuple[float, float]:
    with devices.reproducible(0, 1):
        replica = Replica(recipe, CPU)
        return time_call(lambda: trainer.fit(replica, data))


WIDE = MLPParameters(hidden=1024, layers=2, batch_size=4096, epochs=1)
SCALED = 60_000


def worker(file: Path) -> None:
    """One of the processes that `ddp` starts."""
    with processes.join_processes(CPU), devices.reproducible(0, 1):
        data = resident(SCALED, WIDE.batch_size)
        training = NetworkTraining(processes.replica(MLP(WIDTH, WIDE), Trainer(), CPU), data)
        steps = training.batches()
        training.step(next(steps))
        wall, cpu = time_call(lambda: [training.step(batch) for batch in steps])
        if step.is_first():
            file.write_text(json.dumps([wall, cpu]))


def ddp() -> list[figures.Row]:
    """Two processes of one thread each, beside one."""
    timings: dict[int, list[list[float]]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "seconds.json"
        for _ in range(3):
            for count, times in timings.items():
                argv = ["--standalone", "--nproc-per-node", str(count), "-m", "benchmarks.trainer"]
                command = [sys.executable, "-m", "nightshift.models.neural", *argv, "worker", "--file", str(file)]
                subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
                times.append(json.loads(file.read_text()))
    speedups = [[one[i] / two[i] for one, two in zip(timings[1], timings[2], strict=True)] for i in (0, 1)]
    wall, cpu = (statistics.median(ratios) for ratios in speedups)
    print(f"DDP, 2 processes over 1: {wall:.2f}x in wall seconds; {cpu:.2f}x in CPU seconds of one process")
    return [{"what": "DDP, two processes", "beside": "one process", "ratio": wall}]


def plans() -> None:
    """By how much the weights of each plan differ from one process's."""
    for count in (2, 4, 8):
        console.print(f"{count} processes", style="bold")
        command = [sys.executable, "-m", "tests.nightshift.models.neural.plans", str(count)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


def memory() -> None:
    """What processes of a Llama hold, counted, beside the planner; and how long stages wait, beside the formula."""
    note = "Bytes of live tensors in the fullest of 8 processes; a stage's actions take 1 forward and 2 backward."
    figures.publish("trainer-memory", census.count_layouts(), note)


def kills() -> None:
    """Kill a random process of two at random moments; compare the final weights with an undisturbed training's."""
    moments = sorted(random.SystemRandom().randrange(STEPS) for _ in range(KILLS))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        elastic.survived(folder / "whole", [])
        seconds = elastic.survived(folder / "killed", moments)
        first, second = (torch.load(folder / run_name / "weights.pt") for run_name in ("whole", "killed"))
        starts = [line for line in elastic.lines(folder / "killed") if line.startswith("resumed")]
    equal = all(torch.equal(first[name], second[name]) for name in first)
    row = {
        "kills": len(moments),
        "recoveries on the first attempt": len(starts) - 1,
        "seconds each": f"{min(seconds):.1f} to {max(seconds):.1f}",
        "weights beside an undisturbed training": "equal to the bit" if equal else "DIFFER",
    }
    figures.publish("trainer-kills", [row])


def machines() -> None:
    """Train on two machines of a TrainJob, one of which is taken away; compare with a training on one."""
    with tempfile.TemporaryDirectory() as name, site.standing(Path(name)) as cluster:
        folder = Path(name)
        cluster.script(f'exec {sys.executable} "$@"')
        cluster.trainer.port = free_port()
        network = samples.MODELS["net"]["parameters"] | {"epochs": 300}
        step_flags = flags(folder, {"net": {"kind": "mlp", "parameters": network}})

        def once() -> None:
            if any((folder / "checkpoints").rglob("checkpoint.json")):
                cluster.meanwhile = lambda: None
                pod = min(pod_object["metadata"]["name"] for pod_object in cluster.cluster.pods(site.NAMESPACE))
                cluster.cluster.delete(POD, pod, namespace=site.NAMESPACE)
                console.print(f"{pod} is deleted")

        cluster.meanwhile = once
        training_step.body(
            StepContext(
                component.training.parser().parse_args(site.with_nodes(step_flags, nodes=2, checkpoint_seconds=1))
            ),
            cluster.job,
        )
        together = scores(folder)["net"]
        training_step.body(StepContext(component.training.parser().parse_args(step_flags)))
        gap, left = np.abs(together - scores(folder)["net"]).max(), cluster.left()
    console.print(f"scores differ by {gap:.1g} from those of one machine; left on the cluster: {left or 'nothing'}")


PARTS = {"batches": batches, "mlp": mlp_training, "loop": loop, "ddp": ddp, "plans": plans, "memory": memory}
PARTS["kills"] = kills
PARTS |= {"ahead": ahead, "table": table, "machines": machines}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trainer", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, "worker"])
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.file:
        worker(args.file)
        return
    torch.set_num_threads(1)
    rows = [row for part in args.parts or PARTS for row in PARTS[part]() or []]
    if rows:
        figures.publish("trainer", rows, "Times as fast, in CPU seconds, DDP in seconds.")


if __name__ == "__main__":
    main()

"""The endpoint on this machine: a real registry and a real server process."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from components.release.targets import VersionShare, factory, rollout
from components.release.targets.local import Local
from nightshift import registry
from nightshift.contracts.state import State
from nightshift_testkit.fixtures import save
from nightshift_testkit.servers import free_port
from tests.components.release.targets.platform import Counted, Platform
from tests.components.release.targets.versions import FEATURES, Fleet
from tests.components.states import state


class Registered(Fleet):
    """The versions 1 and 2 of a registry, and 3, a file of which is damaged."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.registry = str(folder / "registry")
        for number in (1, 2, 3):
            registry.register(self.registry, "fraud", save(folder / f"model-{number}", number / 10), {})
            version = registry.find(self.registry, "fraud", number)
            self.add(FEATURES, factory.build_share("", version, 1.0), version.uri)
        for graph in Path(version.uri).glob("*.onnx"):
            graph.write_bytes(b"damaged")

    def broken(self) -> VersionShare:
        return self.split(v3=1)[0]


class Counting:
    """A target whose process may end before any of its methods is called."""

    splits = True

    def __init__(self, target: Local, counted: Counted) -> None:
        self._target, self._counted = target, counted

    def __getattr__(self, name: str) -> Any:
        self._counted.count(name)
        return getattr(self._target, name)


class Machine(Platform):
    """What is served from a registry."""

    kinds = (FEATURES,)
    failure = "is not the file that"
    counts_calls = False
    silences = ()
    late = ""
    many = False
    fleet: Registered

    def __init__(self, folder: Path) -> None:
        super().__init__(Registered(folder))
        where = State.parse(state(folder, registry=self.fleet.registry, target="local"))
        self._local = Local(where, "fraud", free_port())

    def target(self, *_: Any, **__: Any) -> Any:
        return Counting(self._local, self.counted)

    def nowhere(self) -> None:
        return None

    def standing_still(self) -> Any:
        raise NotImplementedError

    def state(self) -> dict[int, float]:
        return self._local.serving()

    def shares(self) -> dict[int, float]:
        return self._local.serving()

    def clear(self) -> None:
        self._local.clean(())

    def saved(self) -> Callable[[], None]:
        split: Sequence[VersionShare] = [
            dataclasses.replace(self.fleet.split(**{f"v{version}": 1})[0], traffic=traffic)
            for version, traffic in self.state().items()
        ]
        return lambda: rollout(self._local, split) if split else self.clear()


@contextmanager
def platform(_: Fleet, folder: Path) -> Iterator[Machine]:
    machine = Machine(folder)
    try:
        yield machine
    finally:
        machine.clear()

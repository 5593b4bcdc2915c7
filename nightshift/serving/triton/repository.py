"""The folder that tritonserver reads: a version appears whole, and is never replaced by another of its number.

Triton looks at folders that are numbers only, so a version is written under another name and renamed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nightshift import storage
from nightshift.contracts import package
from nightshift.contracts.package import ModelPackage
from nightshift.errors import UserError
from nightshift.serving.triton import config
from nightshift.serving.triton.config import Served, Settings
from nightshift.storage import locks

LABELS = "labels.txt"  # a class a line, for Triton's classification extension
GRAPH = "model.onnx"  # what Triton's backend looks for
CONFIG = "config.pbtxt"
CODE = Path(__file__).with_name("model.py")
ONLY = 1  # the feature step and the ensemble are the same for every version


@dataclass(frozen=True)
class Wanted:
    """A model as the repository is to have it.

    Attributes:
        name: of the model; those that go with it are `<name>_features` and `<name>_raw`.
        version: its number.
        keep: how many of the newest versions stay; one that is served stays anyway.
        settings: how Triton runs it.
        parameters: of the feature step, see `features.opened`: `uri` and `state`, or none.
    """

    name: str
    version: int
    keep: int = 2
    settings: Settings = field(default_factory=Settings)
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Done:
    """What has changed: whether the version is new, and which ones were withdrawn."""

    is_new: bool
    withdrawn: list[int]


def publish(folder: Path, uri: str, wanted: Wanted) -> Done:
    """Have a repository serve a version of a model; the second time nothing changes.

    Args:
        folder: the repository, on a local file system; it is made if it is missing.
        uri: the model package.
        wanted: what is to be there.

    Raises:
        UserError: when the package's files are not those of its manifest, the version is another model's, its inputs
            differ from those of the versions before, a version that is to be served is missing, a snapshot is given to
            a model that takes no raw events, or the model has several inputs.
    """
    manifest = package.load(uri)
    if wanted.parameters and not manifest.preprocessing.takes_events:
        raise UserError(f"snapshot and state are of raw events, which {uri} does not take; leave them out")
    if len(manifest.signature.inputs) > 1:
        names = " and ".join(tensor.name for tensor in manifest.signature.inputs)
        raise UserError(f"{uri} takes {names}, and this repository serves models of one input; use nightshift.serving")
    folder.mkdir(parents=True, exist_ok=True)
    with locks.held(folder / ".lock"):
        models = _Models(folder, wanted.name)
        models.sweep()
        models.check_inputs(manifest)
        models.check_served(wanted)
        is_new = models.add(uri, manifest, wanted.version)
        models.configure(manifest, wanted)
        return Done(is_new, models.withdraw(wanted))


class _Models:
    """The models of one name in a repository."""

    def __init__(self, folder: Path, name: str) -> None:
        self.graph, self.features, self.raw = (folder / f"{name}{end}" for end in ("", config.FEATURES, config.RAW))

    @property
    def versions(self) -> list[int]:
        """The versions there are, the oldest first."""
        return sorted(int(path.name) for path in self.graph.glob("[1-9]*") if path.name.isdecimal())

    def sweep(self) -> None:
        """Remove what was cut short."""
        for path in [*self.graph.glob("*.draft"), *self.features.glob("*.draft"), *self.graph.glob("*.withdrawn")]:
            storage.remove_folder(str(path))

    def check_inputs(self, manifest: ModelPackage) -> None:
        """Refuse a model with other inputs: the versions of a name share their configuration and feature step."""
        place = self.features / str(ONLY)
        if place.exists():
            before = package.load(str(place))
            if (before.signature, before.preprocessing) != (manifest.signature, manifest.preprocessing):
                raise UserError(
                    f"{self.graph} takes other inputs than this model: {before.preprocessing.summary}, not "
                    f"{manifest.preprocessing.summary}; "
                    "publish it under another --name, and withdraw this one when nobody asks it any more"
                )

    def check_served(self, wanted: Wanted) -> None:
        """Refuse to serve what is not there."""
        there = {*self.versions, wanted.version}
        if missing := set(wanted.settings.versions) - there:
            raise UserError(f"serve names version {min(missing)}; there will be {', '.join(map(str, sorted(there)))}")

    def add(self, uri: str, manifest: ModelPackage, version: int) -> bool:
        """Add a version and, with the first one, what goes with it; return whether it is new."""
        self._add_features(uri, manifest)
        file = manifest.graph(manifest.selected)
        place = self.graph / str(version)
        if place.exists():
            found = storage.sha256((place / GRAPH).read_bytes())
            if found == file.sha256:
                return False
            raise UserError(
                f"version {version} in {self.graph} is another model, {found[:8]}, not {file.sha256[:8]}; "
                f"give this one a --version of its own, such as {self.versions[-1] + 1}"
            )
        draft = self._draft(self.graph, version)
        source = storage.join(uri, file.name)
        package.check(source, storage.copy(source, str(draft / GRAPH)), file)
        draft.rename(place)
        return True

    def _add_features(self, uri: str, manifest: ModelPackage) -> None:
        if not (self.features / str(ONLY)).exists():
            draft = self._draft(self.features, ONLY)
            package.copy(uri, str(draft), only=manifest.vocabularies)
            storage.copy(str(CODE), str(draft / CODE.name))
            draft.rename(self.features / str(ONLY))
        (self.raw / str(ONLY)).mkdir(parents=True, exist_ok=True)

    def configure(self, manifest: ModelPackage, wanted: Wanted) -> None:
        """Write the configurations that change, the ensemble's last: it needs the others."""
        labels = manifest.preprocessing.labels
        if labels:
            _put(self.graph / LABELS, "".join(f"{name}\n" for name in labels))
        served = Served(wanted.name, manifest.signature, manifest.preprocessing.item, wanted.settings)
        _put(self.graph / CONFIG, config.graph(served, LABELS if labels else None))
        _put(self.features / CONFIG, config.features(served, wanted.parameters))
        _put(self.raw / CONFIG, config.ensemble(served))

    def withdraw(self, wanted: Wanted) -> list[int]:
        """Remove the versions that are neither served nor to be kept; return them."""
        versions = self.versions
        kept = wanted.settings.served(versions) | set(versions[-wanted.keep :])
        old = [version for version in versions if version not in kept]
        for version in old:
            gone = (self.graph / str(version)).rename(self.graph / f"{version}.withdrawn")
            storage.remove_folder(str(gone))
        return old

    def _draft(self, model: Path, version: int) -> Path:
        draft = model / f"{version}.draft"
        draft.mkdir(parents=True)
        return draft


def _put(path: Path, text: str) -> None:
    # a file that is written again makes Triton load its model again
    if not path.exists() or path.read_text() != text:
        storage.write_bytes(str(path), text.encode())

"""The folder that tritonserver reads: a version appears whole, and its number is never used again.

Triton reads only folders with numeric names, so a version is written under another name and renamed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nightshift import storage
from nightshift.contracts import package
from nightshift.contracts.package import ModelPackage
from nightshift.models import weights
from nightshift.runtime.errors import UserError
from nightshift.serving.triton import config
from nightshift.serving.triton.config import TritonModel, TritonSettings
from nightshift.storage import locks

LABELS = "labels.txt"  # one class a line, for Triton's classification extension
GRAPH = "model.onnx"  # the file name that Triton's backend expects
CONFIG = "config.pbtxt"
CODE = Path(__file__).with_name("model.py")
ONLY = 1  # the feature step and the ensemble are the same for every version


@dataclass(frozen=True)
class PublishRequest:
    """A version to publish.

    Attributes:
        name: name of the graph; its feature step is `<name>_features`, its ensemble `<name>_raw`.
        version: number of the version.
        keep: number of newest versions to keep; served ones stay anyway.
        settings: how Triton runs it.
        parameters: arguments of `features.open_step`: `uri` and `state`, or none.
    """

    name: str
    version: int
    keep: int = 2
    settings: TritonSettings = field(default_factory=TritonSettings)
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PublishResult:
    """Changes of a repository: whether the version is new, and the withdrawn versions."""

    is_new: bool
    withdrawn: list[int]


def publish(folder: Path, uri: str, request: PublishRequest) -> PublishResult:
    """Publish a version of a model in a repository; the second time nothing changes.

    Args:
        folder: the repository, on a local file system; created if it is missing.
        uri: folder or URI of the model package.
        request: name, number and settings of the version.

    Raises:
        UserError: when the package's files are not those of its manifest, the version is another model's, its inputs
            differ from those of earlier versions, a version to serve is missing, a snapshot comes with a model that
            takes no raw events, or the model has several inputs.
    """
    manifest = package.load(uri)
    if request.parameters and not manifest.preprocessing.takes_events:
        raise UserError(f"snapshot and state are of raw events, which {uri} does not take; leave them out")
    if len(manifest.signature.inputs) > 1:
        names = " and ".join(tensor.name for tensor in manifest.signature.inputs)
        raise UserError(f"{uri} takes {names}, and this repository serves models of one input; use nightshift.serving")
    folder.mkdir(parents=True, exist_ok=True)
    with locks.hold(folder / ".lock"):
        models = _Models(folder, request.name)
        models.sweep()
        models.check_inputs(manifest)
        models.check_served(request)
        is_new = models.add(uri, manifest, request.version)
        models.configure(manifest, request)
        return PublishResult(is_new, models.withdraw(request))


class _Models:
    """The models of one name in a repository."""

    def __init__(self, folder: Path, name: str) -> None:
        self.graph, self.features, self.raw = (folder / f"{name}{end}" for end in ("", config.FEATURES, config.RAW))

    @property
    def versions(self) -> list[int]:
        """The existing versions, the oldest first."""
        return sorted(int(path.name) for path in self.graph.glob("[1-9]*") if path.name.isdecimal())

    def sweep(self) -> None:
        """Remove the leftovers of interrupted publications."""
        for path in [*self.graph.glob("*.draft"), *self.features.glob("*.draft"), *self.graph.glob("*.withdrawn")]:
            storage.remove_folder(str(path))

    def check_inputs(self, manifest: ModelPackage) -> None:
        """Refuse a model with other inputs: all versions of a name share one configuration and one feature step."""
        folder = self.features / str(ONLY)
        if folder.exists():
            before = package.load(str(folder))
            if (before.signature, before.preprocessing) != (manifest.signature, manifest.preprocessing):
                raise UserError(
                    f"{self.graph} takes other inputs than this model: {before.preprocessing.summary}, not "
                    f"{manifest.preprocessing.summary}; "
                    "publish it under another --name, and withdraw this one when it gets no more requests"
                )

    def check_served(self, request: PublishRequest) -> None:
        """Refuse to serve a missing version."""
        versions = {*self.versions, request.version}
        if missing := set(request.settings.versions) - versions:
            raise UserError(
                f"serve names version {min(missing)}; there will be {', '.join(map(str, sorted(versions)))}"
            )

    def add(self, uri: str, manifest: ModelPackage, version: int) -> bool:
        """Add a version, with the first one also the feature step and the ensemble; return whether it is new."""
        self._add_features(uri, manifest)
        graph, *stored = manifest.graph_files(manifest.selected)
        files = {GRAPH: graph, **{file.name: file for file in stored}}  # beside it, where the graph looks for them
        folder = self.graph / str(version)
        if folder.exists():
            sha256 = weights.combine([storage.digest(str(folder / name)) for name in files if (folder / name).exists()])
            expected = manifest.identify_graph(manifest.selected)
            if sha256 == expected:
                return False
            raise UserError(
                f"version {version} in {self.graph} is another model, {sha256[:8]}, not {expected[:8]}; "
                f"give this one a --version of its own, such as {self.versions[-1] + 1}"
            )
        draft = self._draft(self.graph, version)
        for name, file in files.items():
            source = storage.join(uri, file.name)
            package.check(source, storage.copy(source, str(draft / name)), file)
        draft.rename(folder)
        return True

    def _add_features(self, uri: str, manifest: ModelPackage) -> None:
        if not (self.features / str(ONLY)).exists():
            draft = self._draft(self.features, ONLY)
            package.copy(uri, str(draft), only=manifest.vocabularies)
            storage.copy(str(CODE), str(draft / CODE.name))
            draft.rename(self.features / str(ONLY))
        (self.raw / str(ONLY)).mkdir(parents=True, exist_ok=True)

    def configure(self, manifest: ModelPackage, request: PublishRequest) -> None:
        """Write the changed configurations, the ensemble's last: it needs the others."""
        labels = manifest.preprocessing.labels
        if labels:
            _write_if_changed(self.graph / LABELS, "".join(f"{name}\n" for name in labels))
        model = TritonModel(request.name, manifest.signature, manifest.preprocessing.item, request.settings)
        _write_if_changed(self.graph / CONFIG, config.graph(model, LABELS if labels else None))
        _write_if_changed(self.features / CONFIG, config.features(model, request.parameters))
        _write_if_changed(self.raw / CONFIG, config.ensemble(model))

    def withdraw(self, request: PublishRequest) -> list[int]:
        """Remove the versions that are neither served nor kept; return them."""
        versions = self.versions
        kept = request.settings.choose_served(versions) | set(versions[-request.keep :])
        old = [version for version in versions if version not in kept]
        for version in old:
            withdrawn = (self.graph / str(version)).rename(self.graph / f"{version}.withdrawn")
            storage.remove_folder(str(withdrawn))
        return old

    def _draft(self, model: Path, version: int) -> Path:
        draft = model / f"{version}.draft"
        draft.mkdir(parents=True)
        return draft


def _write_if_changed(path: Path, text: str) -> None:
    # a rewritten file makes Triton reload its model
    if not path.exists() or path.read_text() != text:
        storage.write_bytes(str(path), text.encode())

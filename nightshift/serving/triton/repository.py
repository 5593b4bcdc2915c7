"""The folder that tritonserver reads: a version appears whole, and its number is never used again.

Triton reads only folders with numeric names, so a version is written under another name and renamed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nightshift import storage
from nightshift.contracts import package
from nightshift.contracts.package import OUTPUT, File, Format, ModelPackage, Signature
from nightshift.models import weights
from nightshift.models.cutting import cut_graphs
from nightshift.models.graph import Graph
from nightshift.models.tensors import make_zeros
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
    parts = _list_parts(uri, manifest, request)
    folder.mkdir(parents=True, exist_ok=True)
    with locks.hold(folder / ".lock"):
        repository = [_Models(folder, part) for part in parts]
        for models in repository:
            models.sweep()
            models.check_inputs(manifest)
            models.check_served(request)
        is_new = [models.add(uri, manifest, request.version) for models in repository]
        for models in repository:
            models.configure(manifest, request)
        if manifest.signature.graphs:
            _configure_all(folder / f"{request.name}{config.RAW}", parts)
        withdrawn = [models.withdraw(request) for models in repository]
        return PublishResult(any(is_new), withdrawn[0])


@dataclass(frozen=True)
class _Part:
    """A graph of a package: its only one, or a named one.

    Attributes:
        model: how Triton calls it.
        content: what is cut from the package's graph; None: that graph, as it is.
    """

    model: TritonModel
    content: bytes | None = None


def _list_parts(uri: str, manifest: ModelPackage, request: PublishRequest) -> list[_Part]:
    """Return the graphs of a package: a named one is `<name>_<graph>`."""
    signature, settings = manifest.signature, request.settings
    if signature.graphs:
        from nightshift.serving.items.loader import load_schema  # which features of tables do without

        items = {field.input: field.name for field in load_schema(manifest, uri).fields}
        cut = cut_graphs(package.read_graph(uri, manifest, manifest.selected), signature)
        return [
            _Part(_name_part(f"{request.name}_{name}", signature.select(name), items, settings, content), content)
            for name, content in cut.items()
        ]
    if len(signature.inputs) > 1:
        names = " and ".join(tensor.name for tensor in signature.inputs)
        raise UserError(f"{uri} takes {names}, and this repository serves models of one input; use nightshift.serving")
    scores = signature.model_copy(update={"outputs": [signature.score]})
    (tensor,) = signature.inputs
    return [_Part(TritonModel(request.name, scores, {tensor.name: manifest.preprocessing.item}, settings))]


def _name_part(
    name: str, signature: Signature, items: Mapping[str, str], settings: TritonSettings, content: bytes
) -> TritonModel:
    """Return a named graph with outputs as wide as it gives them, which Triton compares."""
    names = [output.name for output in signature.outputs]
    values = Graph(content).run(names, make_zeros(signature.inputs))
    outputs = [
        output.model_copy(update={"shape": [-1, *values[output.name].shape[1:]]}) for output in signature.outputs
    ]
    own = {tensor.name: items[tensor.name] for tensor in signature.inputs}
    return TritonModel(name, signature.model_copy(update={"outputs": outputs}), own, settings)


def _configure_all(folder: Path, parts: Sequence[_Part]) -> None:
    """Write the ensemble of all named graphs, for requests with all fields of an item."""
    (folder / str(ONLY)).mkdir(parents=True, exist_ok=True)
    _write_if_changed(folder / CONFIG, config.ensemble(folder.name, [part.model for part in parts]))


class _Models:
    """The models of one name in a repository."""

    def __init__(self, folder: Path, part: _Part) -> None:
        ends = ("", config.FEATURES, config.RAW)
        self.graph, self.features, self.raw = (folder / f"{part.model.name}{end}" for end in ends)
        self._part = part

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
        content = self._part.content
        if content is not None:
            graph = File.describe(GRAPH, content, Format.ONNX)
            used = {file.name for file in weights.weight_files(content)}
            stored = [file for file in stored if file.name in used]
        files = {GRAPH: graph, **{file.name: file for file in stored}}  # beside it, where the graph looks for them
        folder = self.graph / str(version)
        if folder.exists():
            sha256 = weights.combine([storage.digest(str(folder / name)) for name in files if (folder / name).exists()])
            expected = weights.combine([file.sha256 for file in files.values()])
            if sha256 == expected:
                return False
            raise UserError(
                f"version {version} in {self.graph} is another model, {sha256[:8]}, not {expected[:8]}; "
                f"give this one a --version of its own, such as {self.versions[-1] + 1}"
            )
        draft = self._draft(self.graph, version)
        if content is not None:
            storage.write_bytes(str(draft / GRAPH), content)
        for name, file in files.items():
            if not (draft / name).exists():
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
        model = self._part.model
        labels = manifest.preprocessing.labels if any(o.name == OUTPUT for o in model.signature.outputs) else []
        if labels:
            _write_if_changed(self.graph / LABELS, "".join(f"{name}\n" for name in labels))
        _write_if_changed(self.graph / CONFIG, config.graph(model, LABELS if labels else None))
        _write_if_changed(self.features / CONFIG, config.features(model, request.parameters))
        _write_if_changed(self.raw / CONFIG, config.ensemble(self.raw.name, [model]))

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

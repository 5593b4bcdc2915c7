"""What a version is asked to see whether it answers as its files do without a server."""

from dataclasses import replace

from nightshift import registry, storage, tasks
from nightshift.contracts import package
from nightshift.contracts import state as kept
from nightshift.serving import files
from nightshift.tasks.examples import ScoredExample


def build_example(state: kept.State, name: str, uri: str) -> ScoredExample:
    """Score what an endpoint can be asked about a version by now.

    Args:
        state: where the lake and the registry, a folder, lie.
        name: the registered model.
        uri: folder of the version.

    Raises:
        UserError: when the lake has no image or text, or the version's task cannot be served.
    """
    model = package.load(uri)
    task = tasks.find(model.kind).examples
    if example := task.from_files(uri, model, task.online_state(state.lake, name, model)):
        return example
    example, content = task.from_lake(uri, model, state.lake, name)
    # beside the endpoint, for a person to send
    folder = files.folder(registry.root(state.registry), name)
    file = storage.join(folder, f"example.{example.media_type.split('/')[1]}")
    storage.write_bytes(file, content)
    return replace(example, file=file)


def without_state(lake: str, name: str, uri: str) -> ScoredExample:
    """Score what a server of one version can be asked, which keeps no online state: features, or an image or a text.

    Args:
        lake: root of the tables.
        name: the registered model.
        uri: folder of the version.

    Raises:
        UserError: as `build_example`.
    """
    model = package.load(uri)
    return tasks.find(model.kind).examples.from_lake(uri, model, lake, name)[0]

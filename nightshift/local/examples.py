"""Example requests with expected scores, to check that an endpoint answers as its version's files do."""

from dataclasses import replace

from nightshift import registry, storage, tasks
from nightshift.contracts import package
from nightshift.contracts.state import State
from nightshift.serving import files
from nightshift.tasks.examples import ScoredExample


def build_example(state: State, name: str, uri: str) -> ScoredExample:
    """Build an example request for an endpoint, with the version's score.

    Args:
        state: locations of the lake and of the registry, a folder.
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
    # kept beside the endpoint, for people to send
    folder = files.folder(registry.root(state.registry), name)
    file = storage.join(folder, f"example.{example.media_type.split('/')[1]}")
    storage.write_bytes(file, content)
    return replace(example, file=file)


def build_stateless(lake: str, name: str, uri: str) -> ScoredExample:
    """Build an example request for a server without an online state: features, an image or a text.

    Args:
        lake: root of the tables.
        name: the registered model.
        uri: folder of the version.

    Raises:
        UserError: as `build_example`.
    """
    model = package.load(uri)
    return tasks.find(model.kind).examples.from_lake(uri, model, lake, name)[0]

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from nightshift_llm import gguf
from packages.llm.tests import models

CONTEXT = 128


@pytest.fixture(scope="session")
def one_thread() -> Iterator[None]:
    """Matrices this small are slower on several threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    """A folder with a Llama that has read parts of the license."""
    folder = tmp_path_factory.mktemp("trained")
    models.train_llama(folder, models.READ)
    return folder


@pytest.fixture(scope="session")
def original(trained: Path) -> Path:
    """The same as one file."""
    file = trained / "original.gguf"
    gguf.convert(trained, file, "F32")
    return file


@pytest.fixture(scope="session")
def documents() -> list[str]:
    """Parts that it has not read."""
    return [part[:400] for part in models.UNREAD]

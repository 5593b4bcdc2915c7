"""The YAML of compiled pipelines: the spec, and a second document for what Kubernetes gives the steps."""

from pathlib import Path
from typing import Any

import yaml

from nightshift.runtime import strict_yaml
from nightshift.runtime.errors import UserError


def read(path: Path) -> list[dict[str, Any]]:
    """Return the documents of a compiled pipeline's file.

    Raises:
        UserError: when the file is missing, or not compiled YAML.
    """
    try:
        documents = strict_yaml.load_documents(path.read_bytes())
    except FileNotFoundError:
        raise UserError(
            f"pipeline {path} does not exist; give a compiled YAML file, or run: nightshift compile"
        ) from None
    except yaml.YAMLError as error:
        raise UserError(f"pipeline {path} is not YAML: {' '.join(str(error).split())}") from None
    spec = documents[0] if documents else None
    if not isinstance(spec, dict) or "root" not in spec:
        raise UserError(f"pipeline {path} is not a compiled pipeline (no 'root'); run: nightshift compile")
    return [document for document in documents if document]


def dump(documents: list[dict[str, Any]]) -> bytes:
    """Return documents as YAML, the same each time."""
    text: bytes = yaml.dump_all(documents, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), encoding="utf-8")
    return text

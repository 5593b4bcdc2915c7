"""What the model cards of all tasks have in common."""

from nightshift import storage
from nightshift.config import Config
from nightshift.contracts.package import ModelPackage
from nightshift.tasks.markdown import code, items, line

NOTHING = "-"


def identity(model: ModelPackage, config: Config, *rule: str, defaults: str) -> list[str]:
    """Return what a model is.

    Args:
        model: it.
        config: of its use case.
        rule: how it decides, a line.
        defaults: whose parameters it has where none are given.
    """
    lineage, entry = model.lineage, model.candidates[model.selected]
    return items(
        [
            f"Selected: {lineage.reason}",
            f"Kind: {entry.kind}, parameters {entry.parameters or f'at the defaults of the {defaults}'}",
            f"Fitted on {lineage.device} with seed {lineage.seed}",
            *rule,
            line("Model: ", code(model.sha256)),
            line("Config: ", code(storage.fingerprint(config.model_dump(mode="json")))),
        ]
    )

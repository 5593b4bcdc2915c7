"""Which tasks have items that can be served."""

from components.common.contracts.artifact import Part
from components.common.contracts.package import Images
from components.common.errors import UserError
from components.serving.items import images
from components.serving.items.base import Items


def of(made: Part) -> Items:
    """Return the items of a package's preprocessing.

    Raises:
        UserError: when they cannot be served.
    """
    if isinstance(made, Images):
        return images.items(made)
    kind = getattr(made, "kind", None)
    raise UserError(f"the endpoint cannot serve {kind} yet; give target 'register-only'")

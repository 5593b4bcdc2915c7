"""Changes to a config's file that leave its comments and layout alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from nightshift import storage
from nightshift.runtime import strict_yaml

Keys = tuple[str, ...]  # from the top


def set_values(text: str, values: Mapping[Keys, Any]) -> str | None:
    """Put values into a YAML file.

    Args:
        text: of the file.
        values: where -> what, a scalar; a mapping on the way that is missing is added.

    Returns:
        the text of the file; None where it would not mean the same but for these values, as with aliases.
    """
    wanted = strict_yaml.load_document(text)
    try:
        for path, value in values.items():
            wanted = _set_value(wanted, path, value)
            text = _edit_text(text, path, value)
        return text if strict_yaml.load_document(text) == wanted else None
    except yaml.YAMLError:  # such as an alias whose anchor was replaced
        return None


def write(file: Path, values: Mapping[Keys, Any], is_dry: bool) -> str:
    """Write values into a config, unless that is not wanted or would change more; return what to tell a person."""
    text = None if is_dry else set_values(file.read_bytes().decode(), values)
    if text is not None:
        storage.write_bytes(str(file.resolve()), text.encode())
    return f"{'to write into' if text is None else 'written into'} {file}:\n{lines(values)}"


def lines(values: Mapping[Keys, Any]) -> str:
    """Return values as the YAML that a person would write."""
    whole: Any = {}
    for path, value in values.items():
        whole = _set_value(whole, path, value)
    return strict_yaml.dump(whole)


def _set_value(whole: Any, path: Keys, value: Any) -> Any:
    if not path:
        return value
    mapping = whole if isinstance(whole, dict) else {}
    return mapping | {path[0]: _set_value(mapping.get(path[0]), path[1:], value)}


def _edit_text(text: str, path: Keys, value: Any) -> str:
    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for depth, key in enumerate(path):
        if not isinstance(node, yaml.MappingNode):
            return text
        known = {name.value: child for name, child in node.value}
        if key not in known:
            return _insert_entry(text, node, f"{key}: {_format_value(_set_value({}, path[depth + 1 :], value))}")
        node = known[key]
    return text[: node.start_mark.index] + _format_value(value) + text[node.end_mark.index :]


def _insert_entry(text: str, mapping: Any, entry: str) -> str:
    offset: int
    if mapping.flow_style:
        offset = mapping.value[-1][1].end_mark.index if mapping.value else mapping.end_mark.index - 1
        return text[:offset] + (", " if mapping.value else "") + entry + text[offset:]
    # the marks of a block's end lie behind blank lines and comments, those of other values where they end
    ends = [value.end_mark.index for _, value in mapping.value if not _is_block(value)]
    column: int = mapping.value[0][0].start_mark.column
    if not ends:
        offset = mapping.value[0][0].start_mark.index
        return text[:offset] + entry + "\n" + " " * column + text[offset:]
    end = text.find("\n", ends[-1])
    offset = len(text) if end < 0 else end
    return text[:offset] + "\n" + " " * column + entry + text[offset:]


def _is_block(node: yaml.Node) -> bool:
    return isinstance(node, yaml.CollectionNode) and not node.flow_style


def _format_value(value: Any) -> str:
    """Return a value as YAML on one line."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=float("inf"))
    return text.strip().removesuffix("...").strip()

"""The words of the code: one name for one thing, nouns for values, verbs for functions (docs/concepts/glossary.md)."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = (
    *("components", "nightshift", "pipelines", "dags", "infra", "benchmarks"),
    *(f"packages/{name}/nightshift_{name}" for name in ("llm", "perf", "testkit")),
    "packages/image-text/nightshift_image_text",
)
FILLERS = {"found", "place", "places", "made", "given", "asked", "told", "said", "of", "each", "taken"}
# verbs that merely look like participles
VERBS = {"embed", "feed", "read", "seed", "shed", "speed", "split"}
BRITISH = re.compile(
    r"\b\w*?(labell|travell|modelling|signall|neighbour|flavour|colour|behaviour|favour|honour|judgement|artefact"
    r"|catalogue|(?:standard|initial|normal|optim|organ|serial|quant|symmetr|regular|summar|vector|token)is(?:e|ed|ing|ation)\b)\w*",
    re.IGNORECASE,
)  # fmt: skip
SOURCES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
TREES = {path.relative_to(ROOT): ast.parse(path.read_text()) for path in SOURCES}
TEXTS = [*SOURCES, *(ROOT / "docs").rglob("*.md"), *(ROOT / "packages").rglob("*.md"), *ROOT.glob("*.md")]


def nodes(*kinds: type[ast.AST]) -> Iterator[tuple[Path, ast.AST]]:
    """Yield the nodes of some kinds, each with its file."""
    return ((path, node) for path, tree in TREES.items() for node in ast.walk(tree) if isinstance(node, kinds))


def names() -> Iterator[tuple[Path, str]]:
    """Yield all names that the code gives: of variables, attributes, parameters, functions, classes and modules."""
    for path, node in nodes(ast.Name, ast.Attribute, ast.arg, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield path, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield path, name
    yield from ((path, path.stem) for path in TREES)


def test_no_name_is_a_filler() -> None:
    assert [f"{path}: {name}" for path, name in names() if name.strip("_").lower() in FILLERS] == []


def test_a_class_name_stands_for_one_thing() -> None:
    # a task's class is named like the question that it answers
    answers = {
        node
        for _, node in nodes(ast.ClassDef)
        if any(ast.unparse(base).endswith(f".{node.name}") for base in node.bases)
    }
    # as Triton wants a backend's to be called
    named_by_others = {"TritonPythonModel"}
    classes = Counter(
        node.name for _, node in nodes(ast.ClassDef) if node not in answers and node.name not in named_by_others
    )

    assert [name for name, count in classes.items() if count > 1] == []


def test_a_function_is_a_verb_or_a_noun_and_no_bare_participle() -> None:
    functions = {(path, node.name) for path, node in nodes(ast.FunctionDef, ast.AsyncFunctionDef)}
    participles = [
        f"{path}: {name}" for path, name in functions if name.endswith("ed") and name.strip("_") not in VERBS
    ]

    assert [name for name in participles if "_" not in name.strip("_")] == []


def test_a_function_says_what_it_does_with_rows_and_a_step_works_on_a_setup() -> None:
    steps = {path for path in TREES if path.parts[0] in ("components", "nightshift") and "tabular" not in path.parts}
    functions = [
        f"{path}: {node.name}"
        for path in steps
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.FunctionDef) and node.name.strip("_") == "rows" and not node.decorator_list
    ]

    assert functions == []
    assert [f"{path}: {name}" for path, name in names() if path in steps and name.strip("_") == "job"] == []


def test_spelling_is_american() -> None:
    words = {path.relative_to(ROOT): [match.group() for match in BRITISH.finditer(path.read_text())] for path in TEXTS}

    assert {str(path): british for path, british in words.items() if british} == {}

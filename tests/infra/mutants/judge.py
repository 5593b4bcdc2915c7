"""Which check sees a mutant, the cheapest first: what is written, rendered, planned, and Terraform's own tests."""

import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infra import terraform
from infra.terraform import INFRA
from nightshift.runtime.errors import UnavailableError, UserError
from tests.infra import hcl, tables
from tests.infra.checks import CLOUDS
from tests.infra.golden import cluster, pages
from tests.infra.golden import terraform as planned
from tests.infra.golden.facts import text
from tests.infra.mutants import accepted
from tests.infra.mutants.sow import Mutant

# copies of a configuration beside each other: each plan reads the schemas, each apply writes the whole state many times
BESIDE = {"_known": 24, "_facts": 6}
Verdicts = dict[Mutant, str]
Copies = Mapping[str, planned.Copy]
Look = Callable[[str, Copies], dict[str, Any]]


def verdicts(mutants: Sequence[Mutant], scratch: Path, progress: Callable[[str], None]) -> Verdicts:
    """Return what saw each mutant, or an empty text for one that nothing saw.

    Args:
        mutants: of the files of `infra/`.
        scratch: an empty folder.
        progress: is told what comes next.
    """
    of_data = [mutant for mutant in mutants if mutant.cloud not in CLOUDS]
    progress(f"{len(of_data)} of manifests, values, rules and dashboards")
    infra = Path(shutil.copytree(INFRA, scratch / "infra"))
    judged = _data(of_data, infra)
    for cloud in CLOUDS:
        judged |= _terraform(cloud, [mutant for mutant in mutants if mutant.cloud == cloud], infra, progress)
    return judged


@contextmanager
def _sown(mutant: Mutant, infra: Path) -> Iterator[None]:
    path = infra / mutant.file
    before = path.read_text()
    path.write_text(mutant.text())
    yield
    path.write_text(before)


def _data(mutants: Iterable[Mutant], infra: Path) -> Verdicts:
    """Compare what is rendered and listed of each file before and after."""
    before = functools.cache(lambda name: pages.of_cluster(infra)[name]())
    judged = {}
    for mutant in mutants:
        names = _readers(mutant.file, infra)
        wanted = {name: before(name) for name in names}
        with _sown(mutant, infra):
            judged[mutant] = _rendered(infra, wanted)
    return judged


def _readers(file: str, infra: Path) -> list[str]:
    """Return the pages that a file is read for."""
    if file == str(cluster.PRICES):
        return ["prices"]
    folders = {pages.name(folder, infra): cluster.parts(folder) for folder in cluster.kustomizations(infra)}
    rendered = [name for name, parts in folders.items() if any((infra / file).is_relative_to(part) for part in parts)]
    return rendered or ["charts"]


def _rendered(infra: Path, wanted: Mapping[str, str]) -> str:
    try:
        drawn = pages.of_cluster(infra)
        return next(
            (f"facts of {name}" for name, page in wanted.items() if name not in drawn or drawn[name]() != page),
            "",
        )
    except (subprocess.CalledProcessError, UserError, LookupError, TypeError, AttributeError, ValueError) as error:
        return f"refused: {type(error).__name__}"


def _terraform(cloud: str, mutants: list[Mutant], infra: Path, progress: Callable[[str], None]) -> Verdicts:
    judged = {mutant: _written(mutant) for mutant in mutants}
    # what may survive is not planned
    mutants = [mutant for mutant in mutants if not accepted.reason(mutant)]
    for environment in reversed(pages.ENVIRONMENTS):
        left = [mutant for mutant in mutants if not judged[mutant] and _concerns(mutant, environment)]
        for look in (_known, _facts):
            left = [mutant for mutant in left if not judged[mutant]]
            for at in range(0, len(left), count := BESIDE[look.__name__]):
                progress(f"{cloud} {environment}, {look.__name__}: {at} of {len(left)}")
                judged |= _planned(cloud, environment, left[at : at + count], look)
                progress(
                    "\n  ".join(f"{judged[mutant]}: {mutant}" for mutant in left[at : at + count] if judged[mutant])
                )
    for mutant in (mutant for mutant in mutants if not judged[mutant]):
        progress(f"terraform test alone may see {mutant}")
        with _sown(mutant, infra):
            judged[mutant] = _tested(mutant, cloud, infra)
    return judged


def _concerns(mutant: Mutant, environment: str) -> bool:
    return not mutant.file.endswith(".tfvars") or Path(mutant.file).stem == environment


def _written(mutant: Mutant) -> str:
    """Compare what no plan shows, and look at what a page or a test says of variables."""
    before, after = (INFRA / mutant.file).read_text(), mutant.text()
    try:
        if mutant.file.endswith(".tf") and [*planned.stated(before)] != [*planned.stated(after)]:
            return "facts of what is written"
        if Path(mutant.file).name != "variables.tf":
            return ""
        if len(Path(mutant.file).parts) == 2 and tables.inputs(before) != tables.inputs(after):
            return "table of inputs"
    except (AssertionError, AttributeError, LookupError) as error:
        return f"refused: {type(error).__name__}"
    return "types of variables" if _untyped(after) else ""


def _untyped(source: str) -> bool:
    paths = [part.path for part in hcl.parts(source) if part.kind == "argument"]
    return any(
        ("variable", part.path[1], name) not in paths
        for part in hcl.blocks(source)
        if part.path[0] == "variable"
        for name in ("type", "description")
    )


def _planned(cloud: str, environment: str, mutants: Sequence[Mutant], look: Look) -> Verdicts:
    with tempfile.TemporaryDirectory() as scratch:
        folders = {mutant: _folder(mutant, Path(scratch, str(at))) for at, mutant in enumerate(mutants)}
        return _beside(cloud, environment, folders, look)


def _known(cloud: str, copies: Copies) -> dict[str, Any]:
    """Look at what a plan alone shows."""
    observed = planned.observe(cloud, copies, planned.PLAN)
    return {name: planned.known(observed, name) for name in copies}


def _facts(cloud: str, copies: Copies) -> dict[str, Any]:
    """Look at what an apply makes of it too."""
    observed = planned.observe(cloud, copies)
    return {name: text(planned.facts(observed, name, copy)) for name, copy in copies.items()}


def _folder(mutant: Mutant, infra: Path) -> Path:
    folder = shutil.copytree(INFRA / mutant.cloud, infra / mutant.cloud)
    (infra / mutant.file).write_text(mutant.text())
    return Path(folder)


def _beside(cloud: str, environment: str, folders: Mapping[Mutant, Path], look: Look) -> Verdicts:
    """Plan mutants beside each other and beside what they were made of."""
    sound = {"sound": planned.Copy(INFRA / cloud, environment)}
    copies = {f"m{at}": planned.Copy(folder, environment) for at, folder in enumerate(folders.values())}
    named = dict(zip(copies, folders, strict=True))
    judged: Verdicts = {}
    while copies:
        try:
            seen = look(cloud, sound | copies)
        except UnavailableError as error:
            for name in _blamed(str(error), list(copies)):
                judged[named[name]] = "refused by Terraform"
                del copies[name]
            continue
        return judged | {named[name]: "" if seen[name] == seen["sound"] else "facts of the plan" for name in copies}
    return judged


def _blamed(error: str, names: list[str]) -> list[str]:
    """Return the copies that Terraform names in a refusal."""
    blamed = set(re.findall(r"""(?:copies/|module\.|module ")(m\d+)\b""", error)) & {*names}
    assert blamed or len(names) == 1, f"Terraform names none of the copies:\n{error}"
    return sorted(blamed) or names


def _tested(mutant: Mutant, cloud: str, infra: Path) -> str:
    """Run Terraform's tests of the module that the mutant is in."""
    parts = Path(mutant.file).parts
    module = f'"./modules/{parts[2]}"' if "modules" in parts else ""
    files = [path for path in sorted((infra / cloud / "tests").glob("*.tftest.hcl")) if module in path.read_text()]
    chosen = " ".join(f"-filter=tests/{path.name}" for path in files)
    try:
        terraform.run(cloud, f"terraform test -no-color {chosen}", infra)
    except UnavailableError:
        return "terraform test"
    return ""

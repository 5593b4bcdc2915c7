"""Which check sees a change, the cheapest first: what is written, rendered, planned, and Terraform's own tests."""

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
from tests.infra.injected import accepted
from tests.infra.injected.faults import Fault, Verdicts

# copies of a configuration beside each other: each plan reads the schemas, each apply writes the whole state many times
BESIDE = {"_known": 24, "_facts": 6}
Copies = Mapping[str, planned.Copy]
Look = Callable[[str, Copies], dict[str, Any]]


def judge_changes(faults: Sequence[Fault], scratch: Path, progress: Callable[[str], None]) -> Verdicts:
    """Return what saw each fault, or an empty text for one that nothing saw.

    Args:
        faults: of the files of `infra/`.
        scratch: an empty folder.
        progress: is told what comes next.
    """
    of_data = [fault for fault in faults if not fault.is_terraform]
    progress(f"{len(of_data)} of manifests, values, rules and dashboards")
    infra = Path(shutil.copytree(INFRA, scratch / "infra"))
    judged = _data(of_data, infra)
    for cloud in CLOUDS:
        judged |= _terraform(
            cloud, [fault for fault in faults if fault.is_terraform and fault.cloud == cloud], infra, progress
        )
    return judged


@contextmanager
def _injected(fault: Fault, infra: Path) -> Iterator[None]:
    path = infra / fault.file
    before = path.read_text()
    path.write_text(fault.text())
    yield
    path.write_text(before)


def _data(faults: Iterable[Fault], infra: Path) -> Verdicts:
    """Compare what is rendered and listed of each file before and after."""
    before = functools.cache(lambda name: pages.of_cluster(infra)[name]())
    judged = {}
    for fault in faults:
        names = _readers(fault.file, infra)
        wanted = {name: before(name) for name in names}
        with _injected(fault, infra):
            judged[fault] = _rendered(infra, wanted)
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


def _terraform(cloud: str, faults: list[Fault], infra: Path, progress: Callable[[str], None]) -> Verdicts:
    judged = {fault: _written(fault) for fault in faults}
    # what may survive is not planned
    faults = [fault for fault in faults if not accepted.reason(fault)]
    for environment in reversed(pages.ENVIRONMENTS):
        left = [fault for fault in faults if not judged[fault] and _concerns(fault, environment)]
        for look in (_known, _facts):
            left = [fault for fault in left if not judged[fault]]
            for at in range(0, len(left), count := BESIDE[look.__name__]):
                progress(f"{cloud} {environment}, {look.__name__}: {at} of {len(left)}")
                judged |= _planned(cloud, environment, left[at : at + count], look)
                progress("\n  ".join(f"{judged[fault]}: {fault}" for fault in left[at : at + count] if judged[fault]))
    for fault in (fault for fault in faults if not judged[fault]):
        progress(f"terraform test alone may see {fault}")
        with _injected(fault, infra):
            judged[fault] = _tested(fault, cloud, infra)
    return judged


def _concerns(fault: Fault, environment: str) -> bool:
    return not fault.file.endswith(".tfvars") or Path(fault.file).stem == environment


def _written(fault: Fault) -> str:
    """Compare what no plan shows, and look at what a page or a test says of variables."""
    before, after = (INFRA / fault.file).read_text(), fault.text()
    try:
        if fault.file.endswith(".tf") and [*planned.stated(before)] != [*planned.stated(after)]:
            return "facts of what is written"
        if Path(fault.file).name != "variables.tf":
            return ""
        if len(Path(fault.file).parts) == 2 and tables.inputs(before) != tables.inputs(after):
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


def _planned(cloud: str, environment: str, faults: Sequence[Fault], look: Look) -> Verdicts:
    with tempfile.TemporaryDirectory() as scratch:
        folders = {fault: _folder(fault, Path(scratch, str(at))) for at, fault in enumerate(faults)}
        return _beside(cloud, environment, folders, look)


def _known(cloud: str, copies: Copies) -> dict[str, Any]:
    """Look at what a plan alone shows."""
    observed = planned.observe(cloud, copies, planned.PLAN)
    return {name: planned.known(observed, name) for name in copies}


def _facts(cloud: str, copies: Copies) -> dict[str, Any]:
    """Look at what an apply makes of it too."""
    observed = planned.observe(cloud, copies)
    return {name: text(planned.facts(observed, name, copy)) for name, copy in copies.items()}


def _folder(fault: Fault, infra: Path) -> Path:
    folder = shutil.copytree(INFRA / fault.cloud, infra / fault.cloud)
    (infra / fault.file).write_text(fault.text())
    return Path(folder)


def _beside(cloud: str, environment: str, folders: Mapping[Fault, Path], look: Look) -> Verdicts:
    """Plan faults beside each other and beside what they were made of."""
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


def _tested(fault: Fault, cloud: str, infra: Path) -> str:
    """Run Terraform's tests of the module that the fault is in."""
    parts = Path(fault.file).parts
    module = f'"./modules/{parts[2]}"' if "modules" in parts else ""
    files = [path for path in sorted((infra / cloud / "tests").glob("*.tftest.hcl")) if module in path.read_text()]
    chosen = " ".join(f"-filter=tests/{path.name}" for path in files)
    try:
        terraform.run(cloud, f"terraform test -no-color {chosen}", infra)
    except UnavailableError:
        return "terraform test"
    return ""

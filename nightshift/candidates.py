"""The kinds of candidates of a table: those built in, and those of installed packages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any

from nightshift import entry_points
from nightshift.runtime.errors import UserError, nearest


@dataclass(frozen=True)
class CandidateKind:
    """What a package brings to be a kind of candidate; nothing of its library is imported before it is needed.

    Attributes:
        fit: `module:function` of a `FitSpec`, the inputs, float32 (n, d), and the labels, int8 (n,), that returns what
            it has `Fitted` (`nightshift/tasks/fitting.py`).
        parameters: `module:class` of its parameters, a `ConfigSection`, by which the config is checked; empty: its
            library checks them when a training begins.
    """

    fit: str
    parameters: str = ""

    @property
    def fit_function(self) -> Callable[..., Any]:
        """The function that fits it."""
        function: Callable[..., Any] = resolve_name(self.fit)
        return function

    @property
    def parameters_class(self) -> Any:
        """The class of its parameters, None where its library checks them."""
        return resolve_name(self.parameters) if self.parameters else None


ENSEMBLE = "ensemble"  # the kind that is made of other candidates
CONFIGS = "nightshift.config.parameters"
ESTIMATORS = "nightshift.tasks.tabular.estimators"
BUILT_IN: Mapping[str, CandidateKind] = MappingProxyType(
    {
        "xgboost": CandidateKind(f"{ESTIMATORS}:fit_xgboost"),
        "mlp": CandidateKind(f"{ESTIMATORS}:fit_mlp"),
        "logistic_regression": CandidateKind(f"{ESTIMATORS}:fit_logistic_regression"),
        "random_forest": CandidateKind(f"{ESTIMATORS}:fit_random_forest"),
        "lightgbm": CandidateKind("nightshift.tasks.tabular.lightgbm:fit", f"{CONFIGS}:LightGBMParameters"),
        "catboost": CandidateKind("nightshift.tasks.tabular.catboost:fit", f"{CONFIGS}:CatBoostParameters"),
        ENSEMBLE: CandidateKind("nightshift.tasks.tabular.ensemble:fit", f"{CONFIGS}:EnsembleParameters"),
    }
)


def list_kinds() -> list[str]:
    """Return the names of all kinds; no package takes the place of one that is built in."""
    return [*dict.fromkeys([*BUILT_IN, *entry_points.find(entry_points.CANDIDATES)])]


def find(name: str) -> CandidateKind:
    """Return a kind by its name.

    Raises:
        UserError: when there is none, naming those there are.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    if point := entry_points.find(entry_points.CANDIDATES).get(name):
        kind: CandidateKind = point.load()
        return kind
    known = list_kinds()
    raise UserError(f"is {name!r}; allowed: {', '.join(known)}{nearest(name, known)}")

"""How a check reports its result, and what becomes of a client's errors."""

from collections.abc import Callable, Iterable, Iterator

from nightshift.contracts.health import CheckStatus, HealthCheck
from nightshift.runtime.errors import UnavailableError, UserError

# the command that most fixes name
INSTALL = "make cloud-install CLOUD=<aws or gcp> ENV=<such as dev>"
Checks = Iterator[HealthCheck]


def success(name: str, seen: str) -> HealthCheck:
    """Return a check of something that is as it has to be."""
    return HealthCheck(name=name, status=CheckStatus.OK, seen=seen)


def failure(name: str, seen: str, allowed: str, fix: str) -> HealthCheck:
    """Return a check of something that the user has to fix."""
    return HealthCheck(name=name, status=CheckStatus.FAILED, seen=seen, allowed=allowed, fix=fix)


def unavailable(name: str, seen: str, fix: str) -> HealthCheck:
    """Return a check of a server that does not answer."""
    status = CheckStatus.UNAVAILABLE
    return HealthCheck(name=name, status=status, seen=seen, allowed="an answer", fix=fix)


def skip(name: str, reason: str) -> HealthCheck:
    """Return a check that was not made."""
    return HealthCheck(name=name, status=CheckStatus.SKIPPED, seen=reason)


def judge(name: str, seen: str, problems: Iterable[str], allowed: str, fix: str) -> HealthCheck:
    """Return a failed check with its problems, or a passed one without any.

    Args:
        name: of the check.
        seen: what was seen where there is no problem.
        problems: what is wrong, a phrase each.
        allowed: what would be right.
        fix: next step.
    """
    wrong = "; ".join(problems)
    return failure(name, wrong, allowed, fix) if wrong else success(name, seen)


def run_checks(name: str, checks: Callable[[], Checks]) -> Checks:
    """Yield the checks of a subject; an error of a client is a check too."""
    try:
        yield from checks()
    except UserError as error:
        yield failure(name, str(error), "the right to look", "ask an administrator of the cluster for that right")
    except UnavailableError as error:
        yield unavailable(name, str(error), "check that the server runs and the network reaches it")

"""What a server refuses, as the Status object that a client reads."""

from typing import Any

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
}


class StatusError(Exception):
    """A request that is answered with a Status."""

    def __init__(self, code: int, message: str, *, reason: str | None = None, causes: list[Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason or REASONS[code]
        self.causes = causes

    def status(self) -> dict[str, Any]:
        """The body of the answer."""
        details = {"details": {"causes": self.causes}} if self.causes else {}
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "code": self.code,
        } | details


def missing(kind: Any, name: str) -> StatusError:
    return StatusError(404, f'{kind.resource} "{name}" not found')


def forbidden(kind: Any, name: str, why: str) -> StatusError:
    return StatusError(403, f'{kind.resource} "{name}" is forbidden: {why}')


def invalid(kind: Any, name: str, *errors: str) -> StatusError:
    detail = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    shown = f"{kind.name}.{kind.group}" if kind.group else kind.name
    causes = [{"message": error.partition(": ")[2], "field": error.partition(": ")[0]} for error in errors]
    return StatusError(422, f'{shown} "{name}" is invalid: {detail}', causes=causes)

"""What errors of Google's sign-in mean."""

from nightshift.errors import UnavailableError, UserError


def failed(error: BaseException, said: str) -> UserError | UnavailableError:
    """Return what it means that there are no credentials or no token: what a fault of the transport caused may pass.

    Args:
        error: `google.auth.exceptions.GoogleAuthError`.
        said: what cannot be done.
    """
    from google.auth.exceptions import TransportError

    is_transport = isinstance(error, TransportError) or isinstance(error.__cause__, TransportError)
    may_pass = is_transport or getattr(error, "retryable", False)
    return UnavailableError(f"{said}: {error}; run it again") if may_pass else UserError(f"{said}: {error}")

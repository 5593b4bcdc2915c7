"""Who may act by the UI: whoever knows its token, by a session's cookie and a signature in each form."""

import hmac
import secrets
from dataclasses import dataclass, field
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import Response

COOKIE = "nightshift_session"
TOKEN_BYTES = 32


@dataclass(frozen=True)
class Session:
    """A browser that has logged in.

    Attributes:
        id: value of its cookie.
        key: by which its forms are signed.
    """

    id: str
    key: bytes

    def sign(self, path: str) -> str:
        """Return what a form of this session that is sent to a path contains, and no page of another site knows."""
        return hmac.new(self.key, path.encode(), sha256).hexdigest()

    def has_signed(self, path: str, signature: str) -> bool:
        """Return whether a form comes from a page of this session."""
        return hmac.compare_digest(self.sign(path).encode(), signature.encode())


@dataclass(frozen=True)
class AccessGate:
    """Lets in whoever has a token.

    Attributes:
        token: what a person has to know.
    """

    token: str
    _sessions: dict[str, Session] = field(default_factory=dict)

    def open_session(self, token: str) -> Session | None:
        """Return a new session; None for a wrong token."""
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return None
        session = Session(secrets.token_urlsafe(TOKEN_BYTES), secrets.token_bytes(TOKEN_BYTES))
        self._sessions[session.id] = session
        return session

    def find_session(self, request: Request) -> Session | None:
        """Return the session of a request, None of a browser that has not logged in."""
        return self._sessions.get(request.cookies.get(COOKIE, ""))


def set_cookie(response: Response, session: Session) -> Response:
    """Have a browser keep a session; neither a script nor a request of another site has it."""
    response.set_cookie(COOKIE, session.id, httponly=True, samesite="strict")
    return response

"""Safety: which requests are answered at all, and the headers that every answer carries.

A page on the loopback address can still be reached by other pages in the same browser, so the Host header must name this server
(or else a foreign name could be pointed at it) and requests that change something must come from its own pages. Nothing but its
own scripts, styles and pictures may be loaded, whatever a label or a file name says.
"""

import hmac
import ipaddress
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
TOKEN_HEADER = "x-shortlist-token"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "geolocation=(), microphone=()",
}
READING = frozenset({"GET", "HEAD"})
MOST_CLIENTS = 10_000  # whose rates are remembered


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server at this address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("garden.example")
    (True, True, False, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def host_name(header: str) -> str | None:
    """The name in a Host header, without the port; None if it is none.

    >>> host_name("localhost:8000"), host_name("[::1]:8000"), host_name("a/b")
    ('localhost', '::1', None)
    """
    try:
        parts = urlsplit(f"//{header}")
        parts.port  # noqa: B018 (raises for what is no port)
    except ValueError:
        return None
    plain = not (parts.path or parts.query or parts.fragment or parts.username)
    return parts.hostname if plain else None


@dataclass(frozen=True)
class Access:
    """Who may ask, and who may vote.

    Args:
        hosts: names under which the server may be addressed, in any case of letters; empty for any.
        key: what votes and the review need, beyond the page's token; None if nothing.
        token: what pages send with votes, so that no foreign page can; drawn anew for each server.
    """

    hosts: frozenset[str] = LOOPBACK_NAMES
    key: str | None = None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hosts", frozenset(name.lower() for name in self.hosts))

    def why_refused(self, method: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """The status and the sentence for a request that is not answered; None if it is.

        Args:
            method: of the request.
            headers: by their names in lower case.
        """
        name = host_name(headers.get("host", ""))
        if name is None or (self.hosts and name not in self.hosts):
            return 421, "Host: expected the name of this server; start it with --allow-host NAME to be reached under another"
        if method in READING:
            return None
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "Sec-Fetch-Site: expected a request from this server's own pages, got one from another site"
        origin = headers.get("origin")
        try:
            foreign = origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower()
        except ValueError:
            return 400, "Origin: expected the address of this server's own pages, got something that is no address"
        if foreign:
            return 403, "Origin: expected a request from this server's own pages, got one from another site"
        return None

    def may_review(self, headers: Mapping[str, str]) -> bool:
        """Whether a request has the key, if there is one."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        has_key = self.key is not None and hmac.compare_digest(given.strip().encode(), self.key.encode())
        return self.key is None or (scheme.lower() == "bearer" and has_key)

    def may_vote(self, headers: Mapping[str, str]) -> bool:
        """Whether a request has the token of the page, and the key if there is one."""
        given = headers.get(TOKEN_HEADER, "")
        return hmac.compare_digest(given.encode(), self.token.encode()) and self.may_review(headers)


class RateLimit:
    """So many requests of each client a second on average, and a number of them at once.

    Args:
        per_second: on average; None for no limit.
        at_once: after a pause.
        clock: seconds, for tests.

    >>> limit = RateLimit(per_second=1, at_once=2, clock=lambda: 0.0)
    >>> [limit.allows("ann"), limit.allows("ann"), limit.allows("ann"), limit.allows("bob")]
    [True, True, False, True]
    """

    def __init__(self, per_second: float | None, at_once: int = 20, clock: Callable[[], float] = time.monotonic):
        self.per_second, self.at_once, self._clock = per_second, at_once, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def allows(self, client: str) -> bool:
        """Whether a client may ask now; if so, it is counted."""
        if self.per_second is None:
            return True
        now = self._clock()
        with self._lock:
            left, then = self._left.pop(client, (float(self.at_once), now))
            left = min(float(self.at_once), left + (now - then) * self.per_second)
            allowed = left >= 1
            self._left[client] = (left - 1 if allowed else left, now)
            while len(self._left) > MOST_CLIENTS:
                self._left.popitem(last=False)
        return allowed


def allowed_hosts(host: str, more: Collection[str] = ()) -> frozenset[str]:
    """The names under which a server at this address may be addressed; empty, for any, if it listens everywhere.

    A server that listens everywhere cannot know its names: then a key protects votes, and ``--allow-host`` can name them.
    """
    if is_loopback(host):
        return LOOPBACK_NAMES | frozenset(more)
    if more:
        return LOOPBACK_NAMES | frozenset(more) | {host}
    return frozenset() if host in ("0.0.0.0", "::") else LOOPBACK_NAMES | {host}

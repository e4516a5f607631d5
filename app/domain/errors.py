"""Error classes, divided by the action that is open to the caller.

DairaError
├── NotFound          it does not exist or belongs to another tenant; the answer is the same for both
├── Unauthorized      send valid credentials
├── Forbidden         the caller is known, but not allowed
├── Conflict          the state does not allow it now
│   ├── NotReady      wait and try again
│   └── LlmNotConfigured  ask the service's operator to set a language model up
├── Invalid           change the request
│   ├── IdempotencyMismatch  use another Idempotency-Key
│   ├── TooLarge      send less
│   └── Unsupported   send another type of file
├── TooMany           slow down
├── Unavailable       not the caller's fault: try again
│   ├── Misconfigured     whoever runs the service must change something: waiting does not help
│   └── Collided          (services) two transactions collided and nothing was written: do it again at once
├── AttemptOver       (worker) its lease is lost or its document was deleted: leave everything as it is
└── DocumentFault     (worker) this file can't be processed, however often it is tried
"""

from datetime import timedelta


class DairaError(Exception):
    code = "internal"
    """The machine-readable name, as in the API's `code`."""


class NotFound(DairaError):
    code = "not_found"


class Unauthorized(DairaError):
    code = "unauthorized"


class Forbidden(DairaError):
    code = "forbidden"


class Conflict(DairaError):
    code = "conflict"

    def __init__(self, message: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """The wait after which the state may have changed by itself; None where that is not known."""


class NotReady(Conflict):
    code = "not_ready"

    def __init__(self, message: str, *, retry_after: timedelta = timedelta(seconds=2)) -> None:
        super().__init__(message, retry_after=retry_after)


class LlmNotConfigured(Conflict):
    code = "llm_not_configured"


class Invalid(DairaError):
    code = "invalid"

    def __init__(self, message: str, *, pointer: str | None = None) -> None:
        super().__init__(message)
        self.pointer = pointer
        """JSON pointer (RFC 6901) to the faulty part of the request, when a single part is to blame."""


class IdempotencyMismatch(Invalid):
    code = "idempotency_mismatch"


class TooLarge(Invalid):
    code = "payload_too_large"


class Unsupported(Invalid):
    code = "unsupported_media_type"


class TooMany(DairaError):
    code = "too_many_requests"

    def __init__(self, message: str, *, retry_after: timedelta) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unavailable(DairaError):
    """A part of the service that does not answer. Its text is the operator's, and may name servers and settings."""

    code = "unavailable"

    def __init__(self, message: str, *, public: bool = False, excusable: bool = True) -> None:
        super().__init__(message)
        self.public = message if public else None
        """The text if tenants may read it, too; None where they read a sentence that names nothing."""
        self.excusable = excusable
        """False where the work may have broken what it used, as a question that stops a model's server. The attempt
        counts then, even if what it used is out of order."""


class AttemptOver(DairaError):
    """An attempt that can write nothing any more, because its lease is lost or its document was deleted."""


class Misconfigured(Unavailable):
    """A dependency has answered, and refuses what the settings say. Callers see no difference to Unavailable."""


class Collided(Unavailable):
    """Two transactions that collided, so that nothing was written: another try at once may succeed."""


class DocumentFault(DairaError):
    """A file that can't be processed.

    Its `code` is a job error code: encrypted, corrupt, empty, too_many_pages, too_large, unsupported, timeout.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

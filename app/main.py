"""For `uvicorn app.main:app`; `daira serve` is the same with the guard's exit status."""

from app.asgi import create_app
from app.settings import Settings
from app.telemetry import set_up_logging

settings = Settings()
# Without it structlog prints tracebacks with every local variable, documents and keys among them.
set_up_logging(level=settings.log_level, human=settings.log_format == "text")
app = create_app(settings)

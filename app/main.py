"""For `uvicorn app.main:app`, which starts, waits and refuses as `daira serve` does."""

from app.asgi import create_app
from app.settings import Settings
from app.telemetry import logs_for_people, set_up_logging

settings = Settings()
# Without it structlog prints tracebacks with every local variable, documents and keys among them.
set_up_logging(level=settings.log_level, human=logs_for_people(settings.log_format))
app = create_app(settings)

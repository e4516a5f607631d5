"""For `uvicorn app.main:app`; `daira serve` is the same with the guard's exit status."""

from app.asgi import create_app
from app.settings import Settings

app = create_app(Settings())

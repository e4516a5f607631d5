"""The program as it is served, for a client that reads every answer to its end: streams are left at their first id.

For `uvicorn tests.support.left_streams:app`.
"""

from app.main import app as whole
from tests.support.event_streams import LeavesEndless

app = LeavesEndless(whole)

"""The page `/docs`: Swagger UI, where people try the API with their own key. All its files come from this service."""

from fastapi import FastAPI, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.staticfiles import StaticFiles

PATH = "/docs"

# A key is typed in here, so only the page's own scripts run, and requests go only to this service.
POLICY = "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"

HEADERS = {"Content-Security-Policy": f"{POLICY}; frame-ancestors 'none'", "Referrer-Policy": "no-referrer"}


def install(app: FastAPI) -> None:
    """Add the page and its files. It works offline and trusts no content delivery network."""
    swagger = StaticFiles(packages=[("fastapi_offline", "static")])
    app.add_route(PATH, _page, include_in_schema=False)
    app.mount(f"{PATH}/static", swagger)


async def _page(request: Request) -> Response:
    # A proxy may serve the page under a prefix.
    root: str = request.scope.get("root_path", "")
    page = get_swagger_ui_html(
        openapi_url=f"{root}{request.app.openapi_url}",
        title=request.app.title,
        swagger_js_url=f"{root}{PATH}/static/swagger-ui-bundle.js",
        swagger_css_url=f"{root}{PATH}/static/swagger-ui.css",
        swagger_favicon_url="data:,",
    )
    page.headers.update(HEADERS)
    return page

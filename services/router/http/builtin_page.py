"""The page at `/`: files of this package, read once, without anything from elsewhere."""

from __future__ import annotations

from importlib.resources import files

from baton.services.router.http.cached import CachedAnswer
from baton.services.router.http.routes import Route

FILES = {
    "/": ("index.html", "text/html", "builtinPage", "The built-in page."),
    "/page/page.js": ("page.js", "text/javascript", "builtinPageScript", "Its script."),
    "/page/page.css": ("page.css", "text/css", "builtinPageStyle", "Its style."),
    "/page/icon.svg": ("icon.svg", "image/svg+xml", "builtinPageIcon", "Its icon."),
}
#: nothing comes from elsewhere, goes elsewhere, or frames it; it is asked for again each time, and mostly not sent
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def page_routes() -> tuple[Route, ...]:
    """One for each file."""
    return tuple(_route(path, *told) for path, told in FILES.items())


def _route(path: str, file: str, media_type: str, name: str, summary: str) -> Route:
    read = (files("baton.services.router.page") / file).read_bytes
    answer = CachedAnswer(read, f"{media_type}; charset=utf-8", HEADERS)
    return Route("GET", path, answer.answer, name, summary, media_type, cached=answer)

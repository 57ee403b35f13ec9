"""The page at `/`: files of this package, read at the first request, without anything from elsewhere."""

from __future__ import annotations

from importlib.resources import files

from baton.services.router.http.cached import cached
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
    folder = files("baton.services.router.page")
    return tuple(
        Route(
            method="GET",
            path=path,
            handler=cached((folder / file).read_bytes, f"{media_type}; charset=utf-8", HEADERS),
            name=name,
            summary=summary,
            answer=media_type,
            is_cached=True,
        )
        for path, (file, media_type, name, summary) in FILES.items()
    )

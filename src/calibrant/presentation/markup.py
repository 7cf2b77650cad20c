"""HTML and SVG elements whose content is escaped."""

from html import escape

__all__ = ["Markup", "element", "joined"]

# Elements that never have content: those of SVG are closed by a slash, those of HTML are not closed.
SHAPES = frozenset({"circle", "line", "path", "rect"})
VOID = frozenset({"br", "img", "input", "meta"})


class Markup(str):
    """Text that is markup and must not be escaped by templates."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def element(name: str, /, *content: str, **attributes: object) -> Markup:
    """Return an element; text (unless it is `Markup`) and attribute values are escaped.

    In attribute names an underscore becomes a hyphen and a trailing one is dropped. None omits the attribute, and numbers
    have at most two decimals, a hundredth of a pixel. True has no value, as in ``hidden``.

    >>> element("text", "a < b", class_="tick", x=1.5, y=None)
    '<text class="tick" x="1.5">a &lt; b</text>'
    >>> element("g", element("path", d="M0 0"))
    '<g><path d="M0 0"/></g>'
    >>> element("input", type="search", hidden=True), element("td")
    ('<input type="search" hidden>', '<td></td>')
    """
    written = "".join(
        _attribute(key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in SHAPES and not content:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>" if name in VOID else f"<{name}{written}>{joined(*content)}</{name}>")


def joined(*content: str) -> Markup:
    """Concatenate pieces, escaping those that are not markup.

    >>> joined(Markup("<br/>"), "1 < 2")
    '<br/>1 &lt; 2'
    """
    return Markup("".join(piece if isinstance(piece, Markup) else escape(piece) for piece in content))


def _attribute(name: str, value: object) -> str:
    if value is True:
        return f" {name}"
    text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return f' {name}="{escape(text, quote=False).replace(chr(34), "&quot;")}"'

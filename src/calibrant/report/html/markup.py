"""Markup: HTML or SVG text, and elements whose content is escaped."""

from html import escape

__all__ = ["Markup", "element", "joined"]


class Markup(str):
    """Text that is markup and must not be escaped by templates."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def element(name: str, *content: str, **attributes: object) -> Markup:
    """Return an element; text (unless it is `Markup`) and attribute values are escaped.

    In attribute names an underscore becomes a hyphen and a trailing one is dropped. None omits the attribute, and numbers
    have at most two decimals, a hundredth of a pixel.

    >>> element("text", "a < b", class_="tick", x=1.5, y=None)
    '<text class="tick" x="1.5">a &lt; b</text>'
    >>> element("g", element("path", d="M0 0"))
    '<g><path d="M0 0"/></g>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(attribute_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = joined(*content)
    return Markup(f"<{name}{written}>{inside}</{name}>" if inside else f"<{name}{written}/>")


def joined(*content: str) -> Markup:
    """Concatenate pieces, escaping those that are not markup.

    >>> joined(Markup("<br/>"), "1 < 2")
    '<br/>1 &lt; 2'
    """
    return Markup("".join(piece if isinstance(piece, Markup) else escape(piece) for piece in content))


def attribute_text(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)

"""Markup: text that is HTML or SVG already, and elements built so that nothing in them is taken for markup."""

from html import escape

__all__ = ["Markup", "element", "joined"]


class Markup(str):
    """Text that is markup already; templates put it in as it stands."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def element(name: str, *content: str, **attributes: object) -> Markup:
    """Return an element; text, unless it is `Markup`, and the values of attributes are escaped.

    An underscore in the name of an attribute becomes a hyphen, one at its end is dropped, None leaves the attribute
    out, and numbers are written with at most two decimals, a hundredth of a pixel.

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
    """Return pieces one after the other, those that are not markup escaped.

    >>> joined(Markup("<br/>"), "1 < 2")
    '<br/>1 &lt; 2'
    """
    return Markup("".join(piece if isinstance(piece, Markup) else escape(piece) for piece in content))


def attribute_text(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)

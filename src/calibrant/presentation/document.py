"""Document: headings, paragraphs, lists, tables and figures as plain data, which every output format can write."""

from dataclasses import dataclass, field

from calibrant.presentation.markup import Markup
from calibrant.presentation.table import Table

__all__ = [
    "Block",
    "Bullets",
    "Code",
    "Document",
    "Facts",
    "Figure",
    "OnPage",
    "Paragraph",
    "Section",
    "SideBySide",
]


@dataclass(frozen=True)
class Paragraph:
    """A paragraph.

    Attributes
    ----------
    text : str
    role : str
        Its style on a page: "lead" below a heading, "note" below a table, "headline", or empty.
    opening : str
        Emphasised words at its start.
    """

    text: str
    role: str = ""
    opening: str = ""


@dataclass(frozen=True)
class Bullets:
    """A list of sentences; each has a style on a page, and emphasised words at its start."""

    items: tuple[Paragraph, ...]
    role: str = ""


@dataclass(frozen=True)
class Code:
    """Lines to copy, such as a command, with a title."""

    text: str
    title: str = ""


@dataclass(frozen=True)
class Facts:
    """Terms with short texts, under an optional heading."""

    entries: tuple[tuple[str, str], ...]
    title: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure with its caption, and the table of its numbers, which stands for it where there are no pictures.

    Attributes
    ----------
    name : str
        Identifier on a page.
    caption : str
    picture : Markup
        Inline SVG, or an image, of a page.
    table : Table or None
        Numbers of the figure.
    note : str
        A sentence below the caption.
    definition : str
        What the numbers in the table are.
    role : str
        Further style on a page.
    path : str
        File of the picture relative to a Markdown document; without it, Markdown has the table.
    attributes : dict
        Attributes of the element on a page, for a script.
    """

    name: str
    caption: str
    picture: Markup
    table: Table | None = None
    note: str = ""
    definition: str = ""
    role: str = ""
    path: str = ""
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SideBySide:
    """Blocks beside each other on a wide page, and below each other elsewhere."""

    blocks: "tuple[Block, ...]"


@dataclass(frozen=True)
class OnPage:
    """Markup for pages, such as a legend or a form; other formats have ``otherwise`` in its place."""

    markup: Markup
    otherwise: "tuple[Block, ...]" = ()


Block = Paragraph | Bullets | Code | Facts | Table | Figure | SideBySide | OnPage


@dataclass(frozen=True)
class Section:
    """A titled part of a document.

    Attributes
    ----------
    name : str
        Identifier on a page.
    title : str
    blocks : tuple of Block
    source : str
        Words after the title, such as where numbers were published.
    is_half : bool
        Whether it shares the width of a page with a neighbour of half width.
    attributes : dict
        Attributes of the element on a page, for a script.
    """

    name: str
    title: str
    blocks: tuple[Block, ...]
    source: str = ""
    is_half: bool = False
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Document:
    """A title and sections."""

    title: str
    sections: tuple[Section, ...]

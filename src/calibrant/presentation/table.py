"""Table: columns, cells and notes as plain data, which every output format can write."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from calibrant.presentation.values import PLAIN, Range, Style, Value

__all__ = ["Cell", "Column", "Table", "Tag"]

Content = str | Value | Range
Row = TypeVar("Row")


@dataclass(frozen=True)
class Tag:
    """A label of a cell, such as "better": its style on a page, its text, and a symbol before the text on a page."""

    name: str
    text: str
    symbol: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes
    ----------
    content : str, Value or Range
        Text, or a number with its format.
    details : tuple of str, Value or Range
        Further lines, such as the interval of an estimate; empty ones are left out.
    tag : Tag or None
    value : float or None
        Number by which rows are sorted, if ``content`` is not a :class:`Value`.
    is_best : bool
        Whether the content is emphasised.
    """

    content: Content = ""
    details: tuple[Content, ...] = ()
    tag: Tag | None = None
    value: float | None = None
    is_best: bool = False

    @property
    def number(self) -> float | None:
        """The number behind the cell; None for text."""
        return self.content.value if isinstance(self.content, Value) else self.value

    def text(self, style: Style = PLAIN) -> str:
        """Return the content as text."""
        return _text(self.content, style)

    def detail_texts(self, style: Style = PLAIN) -> list[str]:
        """Return the details as text, without empty ones."""
        return [text for detail in self.details if (text := _text(detail, style))]

    def line(self, style: Style = PLAIN) -> str:
        """Return content, details and tag in one line.

        >>> Cell(Value(0.5), (Range(0.1, 0.9),), Tag("open", "may be noise")).line()
        '0.5000 (0.1000 to 0.9000), may be noise'
        """
        details = "; ".join(self.detail_texts(style))
        text = f"{self.text(style)} ({details})" if details else self.text(style)
        return f"{text}, {self.tag.text}" if self.tag else text


def _text(content: Content, style: Style) -> str:
    return content if isinstance(content, str) else content.text(style)


@dataclass(frozen=True)
class Column:
    """Header of a column.

    Attributes
    ----------
    title : str
    is_numeric : bool
        Whether cells are aligned to the right.
    hint : str
        Second line of the header.
    """

    title: str
    is_numeric: bool = True
    hint: str = ""

    @property
    def heading(self) -> str:
        """Title and hint in one line."""
        return f"{self.title} ({self.hint})" if self.hint else self.title


@dataclass(frozen=True)
class Table:
    """A table with a caption; the leading text columns of a row are its header.

    Attributes
    ----------
    name : str
        Identifier on a page, and name in JSON.
    caption : str
    columns : tuple of Column
    rows : tuple of tuple of Cell
    footer : tuple of tuple of Cell
        Rows below a rule, such as averages.
    definitions : tuple of tuple of str
        Terms with definitions.
    notes : tuple of str
        Sentences below the table.
    n_headers : int
        Number of leading cells of a row that name it.
    is_sortable, is_filterable : bool
        Whether a page lets readers sort rows, and filter them by name.
    limit : int or None
        Number of rows that a page shows initially.
    highlighted : int or None
        Index of an emphasised row.
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    footer: tuple[tuple[Cell, ...], ...] = ()
    definitions: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    n_headers: int = 1
    is_sortable: bool = False
    is_filterable: bool = False
    limit: int | None = None
    highlighted: int | None = None

    @classmethod
    def of(
        cls,
        name: str,
        caption: str,
        rows: Iterable[Row],
        *columns: tuple[Column, "Callable[[Row], Cell | Content]"],
        **options: Any,
    ) -> Self:
        """Return a table with a row per item; each column comes with a function that returns its cell, or what is in it.

        >>> table = Table.of("t", "", {"platt": 0.5}.items(), (Column("method"), lambda row: row[0]),
        ...                  (Column("loss"), lambda row: Value(row[1])))
        >>> table.records()
        [{'method': 'platt', 'loss': 0.5}]
        """
        body = tuple(
            tuple(made if isinstance(made := cell(row), Cell) else Cell(made) for _, cell in columns)
            for row in rows
        )
        return cls(name, caption, tuple(column for column, _ in columns), body, **options)

    @property
    def lines(self) -> tuple[tuple[Cell, ...], ...]:
        """Rows and footer."""
        return self.rows + self.footer

    def records(self) -> list[dict[str, Any]]:
        """Return one dictionary per row: column heading -> number with full precision, or text.

        >>> columns = (Column("method", is_numeric=False), Column("loss"))
        >>> Table("t", "", columns, ((Cell("platt"), Cell(Value(0.123456))),)).records()
        [{'method': 'platt', 'loss': 0.123456}]
        """
        return [
            {
                column.heading: cell.content.value if isinstance(cell.content, Value) else cell.text()
                for column, cell in zip(self.columns, row, strict=True)
            }
            for row in self.lines
        ]

"""Records of a CSV file as they stand in it, byte for byte, with the line on which each begins."""

from collections.abc import Iterator
from typing import IO, NamedTuple

__all__ = ["Record", "cell_text", "field_of", "records"]

QUOTE = b'"'


class Record(NamedTuple):
    """One row of a CSV file.

    Attributes
    ----------
    fields : list of bytes
        The cells with the quotes that they had.
    line_end : bytes
        What ended the row; nothing at the end of a file without a last line end.
    line : int
        Number of the line on which it begins, from one.
    """

    fields: list[bytes]
    line_end: bytes
    line: int


def records(stream: IO[bytes], delimiter: bytes) -> Iterator[Record]:
    """Yield the records of a file; a line end within quotes belongs to the cell.

    >>> from io import BytesIO
    >>> [record.fields for record in records(BytesIO(b'a,"b,c"' + bytes([10]) + b"1,2"), b",")]
    [[b'a', b'"b,c"'], [b'1', b'2']]
    """
    number = 0
    for line in stream:
        number += 1
        first = number
        # An odd number of quotes: the record goes on, since a quote within quotes is written twice.
        if QUOTE in line and line.count(QUOTE) % 2:
            pieces, quotes = [line], line.count(QUOTE)
            while quotes % 2 and (following := stream.readline()):
                pieces.append(following)
                quotes += following.count(QUOTE)
                number += 1
            line = b"".join(pieces)
        body = line.rstrip(b"\r\n")
        fields = _split(body, delimiter) if QUOTE in body else body.split(delimiter)
        yield Record(fields, line[len(body) :], first)


def _split(body: bytes, delimiter: bytes) -> list[bytes]:
    """Return the cells of a record, of which some are quoted: pieces belong together until their quotes match."""
    fields: list[bytes] = []
    pieces: list[bytes] = []
    quotes = 0
    for piece in body.split(delimiter):
        pieces.append(piece)
        quotes += piece.count(QUOTE)
        if quotes % 2 == 0:
            fields.append(delimiter.join(pieces))
            pieces, quotes = [], 0
    return fields if not pieces else [*fields, delimiter.join(pieces)]


def cell_text(field: bytes) -> bytes:
    """Return what a cell says, without its quotes.

    >>> cell_text(b'"say, ""yes"", now"'), cell_text(b"0.5")
    (b'say, "yes", now', b'0.5')
    """
    if len(field) > 1 and field.startswith(QUOTE) and field.endswith(QUOTE):
        return field[1:-1].replace(QUOTE + QUOTE, QUOTE)
    return field


def field_of(text: str, delimiter: bytes) -> bytes:
    """Return a cell that says this, in quotes if it needs them."""
    raw = text.encode()
    if any(sign in raw for sign in (QUOTE, delimiter, b"\n", b"\r")):
        return QUOTE + raw.replace(QUOTE, QUOTE + QUOTE) + QUOTE
    return raw

"""Records of a CSV file as bytes, with their line numbers."""

from collections.abc import Iterator
from typing import IO, NamedTuple

__all__ = ["QUOTE", "Record", "cell_text", "field_of", "records"]

QUOTE = b'"'


class Record(NamedTuple):
    """One row of a CSV file.

    Attributes
    ----------
    fields : list of bytes
        The cells, with their quotes.
    line_end : bytes
        Line end of the row; empty if the file does not end with one.
    line : int
        Number of its first line, from one.
    """

    fields: list[bytes]
    line_end: bytes
    line: int


def records(stream: IO[bytes], delimiter: bytes) -> Iterator[Record]:
    """Yield the records of a file; line ends within quotes belong to the cell.

    >>> from io import BytesIO
    >>> [record.fields for record in records(BytesIO(b'a,"b,c"' + bytes([10]) + b"1,2"), b",")]
    [[b'a', b'"b,c"'], [b'1', b'2']]
    """
    number = 0
    for line in stream:
        number += 1
        first = number
        # With an odd number of quotes the record continues, since quotes within quotes are doubled.
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
    """Return the cells of a record with quoted cells: pieces are joined until their quotes match."""
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
    """Return the content of a cell, without quotes.

    >>> cell_text(b'"say, ""yes"", now"'), cell_text(b"0.5")
    (b'say, "yes", now', b'0.5')
    """
    if len(field) > 1 and field.startswith(QUOTE) and field.endswith(QUOTE):
        return field[1:-1].replace(QUOTE + QUOTE, QUOTE)
    return field


def field_of(text: str, delimiter: bytes) -> bytes:
    """Return a cell with this content, quoted if necessary."""
    raw = text.encode()
    if any(sign in raw for sign in (QUOTE, delimiter, b"\n", b"\r")):
        return QUOTE + raw.replace(QUOTE, QUOTE + QUOTE) + QUOTE
    return raw

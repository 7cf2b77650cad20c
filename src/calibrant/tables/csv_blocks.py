"""Blocks of a CSV file: complete records as bytes, split into columns by pyarrow where the cells are the same."""

from collections.abc import Iterator, Sequence
from typing import IO, Any, NamedTuple, Protocol

import numpy as np

from calibrant.tables.source import MISSING

__all__ = ["Block", "Record", "blocks", "cell_text", "field_of", "parsed_by_pyarrow", "records"]

QUOTE = b'"'


class Record(NamedTuple):
    """One row of a CSV file."""

    fields: list[bytes]  # The cells, with their quotes
    line_end: bytes  # Line end of the row; empty if the file does not end with one
    line: int  # Number of its first line, from one


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


LINE_END = b"\n"
MISSING_TEXTS = sorted({form for text in MISSING for form in (text, text.upper(), text.title(), "NaN")})


class Signs(Protocol):
    """Signs of a text file: between cells, and before decimals."""

    @property
    def separator(self) -> bytes: ...

    @property
    def decimal(self) -> bytes: ...


class Block(NamedTuple):
    """Consecutive complete records of a file."""

    text: bytes
    first_line: int  # Number of the first line in the file, from one


def blocks(stream: IO[bytes], n_bytes: int, first_line: int) -> Iterator[Block]:
    r"""Yield the rest of a file in blocks of about ``n_bytes`` that end with a record.

    >>> from io import BytesIO
    >>> [block.text for block in blocks(BytesIO(b'1,"' + bytes([10]) + b'"' + bytes([10]) + b"2,3"), 1, 2)]
    [b'1,"\n"\n', b'2,3']
    """
    rest = b""
    while True:
        piece = stream.read(n_bytes)
        text = rest + piece
        end = len(text) if not piece else _last_record_end(text)
        if end:
            yield Block(text[:end], first_line)
            first_line += text.count(LINE_END, 0, end)
        rest = text[end:]
        if not piece:
            return


def _last_record_end(text: bytes) -> int:
    """Return the end of the last record that is complete, or zero."""
    end = text.rfind(LINE_END) + 1
    while end and text.count(QUOTE, 0, end) % 2:  # within quotes
        end = text.rfind(LINE_END, 0, end - 1) + 1
    return end


def parsed_by_pyarrow(
    text: bytes, dialect: Signs, names: Sequence[str], columns: Sequence[str], numbers: Sequence[str]
) -> Any | None:
    """Return the columns of a block as an Arrow table: numbers as float64, others as the bytes of their cells.

    Return None where the rules of this library and those of pyarrow could differ, or where a cell is not a number, so
    that the cells must be looked at one by one: quotes around delimiters or line ends, empty lines, rows of another
    length, or lone carriage returns.
    """
    try:
        import pyarrow
        from pyarrow import csv
    except ModuleNotFoundError:
        return None
    n_returns = text.count(b"\r")
    if n_returns and n_returns != text.count(b"\r\n"):
        return None
    if any(text.startswith(end) or LINE_END + end in text for end in (LINE_END, b"\r\n")):
        return None
    if QUOTE in text and _quotes_hide_structure(text, dialect.separator):
        return None
    binary, number = pyarrow.binary(), pyarrow.float64()
    try:
        return csv.read_csv(
            pyarrow.BufferReader(text),
            read_options=csv.ReadOptions(column_names=list(names), block_size=max(len(text) + 1, 1)),
            parse_options=csv.ParseOptions(
                delimiter=dialect.separator.decode(), quote_char=False, ignore_empty_lines=False
            ),
            convert_options=csv.ConvertOptions(
                check_utf8=False,
                decimal_point=dialect.decimal.decode(),
                column_types={name: number if name in numbers else binary for name in columns},
                include_columns=list(columns),
                null_values=MISSING_TEXTS,
                strings_can_be_null=False,
            ),
        ).combine_chunks()
    except (pyarrow.ArrowInvalid, pyarrow.ArrowKeyError):
        return None


def _quotes_hide_structure(text: bytes, delimiter: bytes) -> bool:
    """Return whether a delimiter or a line end is within quotes."""
    signs = np.frombuffer(text, dtype=np.uint8)
    within = np.cumsum(signs == QUOTE[0], dtype=np.uint8)
    within &= 1
    separates = signs == delimiter[0]
    separates |= signs == LINE_END[0]
    return bool((separates & within.view(np.bool_)).any())

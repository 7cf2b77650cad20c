r"""LaTeX tables with booktabs rules, to be included by ``\input``."""

from calibrant.presentation.table import Cell, Table
from calibrant.presentation.text import in_one_line
from calibrant.presentation.values import TYPOGRAPHIC

__all__ = ["as_latex", "escaped"]

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    # An optional argument of the preceding \\ otherwise.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    # Ligatures otherwise.
    "-": "{-}",
    "−": "$-$",
    "–": "--",
    "∞": r"$\infty$",
    "×": r"$\times$",
    "\N{NO-BREAK SPACE}": "~",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{sign: f"$^{{{digit}}}$" for sign, digit in zip("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789", strict=True)},
}
ESCAPES = str.maketrans(SPECIAL)


def escaped(text: str) -> str:
    r"""Escape a text for LaTeX and put it on one line.

    >>> print(escaped("50 % of a_b & −1"))
    50 \% of a\_b \& $-$1
    """
    return in_one_line(" ".join(text.split(" "))).translate(ESCAPES)


def as_latex(table: Table) -> str:
    r"""Return a table with a caption, definitions and notes; the document must load the package booktabs.

    >>> from calibrant.presentation.table import Column
    >>> from calibrant.presentation.values import Value
    >>> columns = (Column("Method", is_numeric=False), Column("Loss"))
    >>> print(as_latex(Table("losses", "Losses", columns, ((Cell("platt"), Cell(Value(-0.5))),))))
    \begin{table}
    \caption{Losses}
    \label{tab:losses}
    \begin{tabular}{lr}
    \toprule
    Method & Loss \\
    \midrule
    platt & $-$0.5000 \\
    \bottomrule
    \end{tabular}
    \end{table}
    <BLANKLINE>
    """
    alignment = "".join("r" if column.is_numeric else "l" for column in table.columns)
    lines = [r"\begin{table}"]
    if table.caption:
        lines.append(rf"\caption{{{escaped(table.caption)}}}")
    label = "".join(character for character in table.name if character.isalnum() or character == "-")
    lines += [rf"\label{{tab:{label}}}"] if label else []
    lines += [rf"\begin{{tabular}}{{{alignment}}}", r"\toprule"]
    lines.append(rf"{' & '.join(escaped(column.heading) for column in table.columns)} \\")
    lines += [r"\midrule", *map(_line, table.rows)]
    if table.footer:
        lines += [r"\midrule", *map(_line, table.footer)]
    lines += [r"\bottomrule", r"\end{tabular}"]
    definitions = [rf"\emph{{{escaped(term)}}}: {escaped(text)}" for term, text in table.definitions]
    lines += [rf"\par {note}" for note in (*definitions, *map(escaped, table.notes))]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _line(row: tuple[Cell, ...]) -> str:
    return rf"{' & '.join(map(_cell, row))} \\"


def _cell(cell: Cell) -> str:
    text = escaped(cell.line(TYPOGRAPHIC))
    return rf"\textbf{{{text}}}" if cell.is_best else text

"""Lists and descriptions of the public names of a module, read from its ``__all__`` while the site is built."""

import inspect
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

import calibrant

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = [
    "NameDescriptions",
    "NameList",
    "descriptions",
    "in_calibrant",
    "listing",
    "public_names",
    "setup",
]


def in_calibrant(package: ModuleType) -> set[str]:
    """Return the names of a module that ``calibrant`` has too, which are listed there."""
    return {
        name
        for name in set(calibrant.__all__) & set(package.__all__)
        if getattr(calibrant, name) is getattr(package, name)
    }


def public_names(module: str) -> list[str]:
    """Return the names of the public functions and classes of a module, grouped by the files that define them."""
    package = import_module(module)
    found = [
        name
        for name in package.__all__
        if (
            inspect.isroutine(getattr(package, name))
            or inspect.isclass(getattr(package, name))
        )
        and (package is calibrant or name not in in_calibrant(package))
    ]
    return sorted(found, key=lambda name: getattr(package, name).__module__)


def listing(modules: list[str]) -> str:
    """Return an autosummary of the public names of some modules."""
    names = [
        f"   {module}.{name}".replace("calibrant.", "", 1)
        for module in modules
        for name in sorted(public_names(module))
    ]
    return "\n".join([".. currentmodule:: calibrant", ".. autosummary::", "", *names])


def descriptions(module: str, *, inherited: bool = False) -> str:
    """Return directives that describe all public names of a module, with a heading for every file."""
    package, lines, source = import_module(module), [], None
    for name in public_names(module):
        described = getattr(package, name)
        home = described.__module__
        if home != source and home != module:
            title = (import_module(home).__doc__ or home).partition("\n")[0]
            lines += ["", f".. rubric:: {title.removesuffix('.')}", ""]
        source = home
        if inspect.isclass(described):
            lines += [f".. autoclass:: {module}.{name}", "   :members:"]
            lines += ["   :inherited-members:"] if inherited else []
        else:
            lines.append(f".. autofunction:: {module}.{name}")
    return "\n".join(lines)


class _Generated(SphinxDirective):
    """A directive that stands for reStructuredText."""

    has_content = False
    required_arguments = 1
    final_argument_whitespace = True

    def parsed(self, text: str) -> list[nodes.Node]:
        # The pages are Markdown, in which this fence holds reStructuredText.
        return self.parse_text_to_nodes(f"````{{eval-rst}}\n{text}\n````\n")


class NameList(_Generated):
    """List the public names of one or more modules, each with the first line of its docstring."""

    def run(self) -> list[nodes.Node]:
        """Return the list."""
        return self.parsed(listing(self.arguments[0].split()))


class NameDescriptions(_Generated):
    """Describe all public names of a module."""

    option_spec: ClassVar = {"inherited": directives.flag}

    def run(self) -> list[nodes.Node]:
        """Return the descriptions."""
        return self.parsed(
            descriptions(self.arguments[0], inherited="inherited" in self.options)
        )


def setup(app: "Sphinx") -> dict[str, Any]:
    """Register the directives ``public-names`` and ``describe-names``."""
    app.add_directive("public-names", NameList)
    app.add_directive("describe-names", NameDescriptions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

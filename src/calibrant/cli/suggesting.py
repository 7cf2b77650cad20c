"""Command group that suggests the nearest name for an unknown command."""

from difflib import get_close_matches

import click

__all__ = ["SuggestingGroup"]


class SuggestingGroup(click.Group):
    """Command group that suggests the nearest name for an unknown command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return a command; reject an unknown one with the nearest name."""
        name = args[0]
        known = self.list_commands(ctx)
        if name in known or name.startswith("-"):
            return super().resolve_command(ctx, args)
        near = get_close_matches(name.lower(), known, 1)
        advice = f"did you mean {near[0]}?" if near else f"available: {', '.join(known)}."
        raise click.UsageError(f"unknown command {name!r}; {advice}", ctx)

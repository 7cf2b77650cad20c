"""Commands by name, with a suggestion where a name is spelt otherwise."""

from difflib import get_close_matches

import click

__all__ = ["SuggestingGroup"]


class SuggestingGroup(click.Group):
    """A group that says which command may have been meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; refuse an unknown one with the nearest name."""
        name = args[0]
        known = self.list_commands(ctx)
        if name in known or name.startswith("-"):
            return super().resolve_command(ctx, args)
        near = get_close_matches(name.lower(), known, 1)
        advice = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}."
        raise click.UsageError(f"there is no command {name!r}; {advice}", ctx)

"""What the numbers promise: levels of tests, coverage of intervals and power of the verdict, by simulation.

Usage::

    python benchmarks/promises.py --results promises.jsonl [--only verdict] [--simulations 400] [--minutes 30]
    python benchmarks/promises.py --results promises.jsonl --before ../old/src
    python benchmarks/promises.py --results promises.jsonl --page docs/promises.md

Every cell is a claim in a scenario (``promises_scenarios.py``, ``promises_claims.py``). Results are appended to a file after
each batch of simulations, so an interrupted run continues where it stopped; ``--part 1/2`` runs every second
cell. ``--before``
repeats the simulations of power with the package of another tree. ``--page`` writes the page of the documentation from the
file, without new simulations, and ``--cells`` prints every cell with its exact limits.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from promises_claims import Cell, cells, power_cells
from promises_power import generator_of
from promises_texts import ABOUT, AGAIN_TEXT, GROUPS, INTRODUCTION, SOURCES

from calibrant.intervals import clopper_pearson

SLOWER = ("verdict", "fresh: verdict", "kernel_test", "calibration_belt", "bootstrap", "paired_bootstrap")

# Simulations before others have their turn, of one batch, and of a cell without a slow fit.
GOALS, BATCH, MANY = (20, 100, 200, 400), 20, 400

# A cell on the wrong side of its limits is simulated again, this many times as often; then only these simulations count.
IN_DOUBT = 5
AGAIN = " | again"
BEFORE = "before: "

# With fewer simulations in which a claim was made its share is not a useful number.
MIN_CLAIMS = 40


class Count(NamedTuple):
    """Simulations of a cell: how many made a claim, in how many it held, and in how many none was made."""

    claims: int = 0
    held: float = 0.0
    withheld: int = 0
    seconds: float = 0.0

    @property
    def total(self) -> int:
        return self.claims + self.withheld

    @property
    def limits(self) -> tuple[float, float]:
        """Exact 95 % limits of the share in which the claim held."""
        low, high = clopper_pearson(round(self.held), self.claims, 0.95)
        return float(low), float(high)

    def __add__(self, other: "Count") -> "Count":  # type: ignore[override]
        return Count(*(one + two for one, two in zip(self, other, strict=True)))


Done = dict[str, Count]


def stored(path: Path) -> Done:
    """Return the sums of all batches in a file of results."""
    found: Done = defaultdict(Count)
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            batch = json.loads(line)
            key = batch.pop("cell")
            found[key] = found[key] + Count(**batch)
    return dict(found)


def simulate(cell: Cell, first: int, number: int) -> Count:
    """Return the outcomes of some simulations of a cell."""
    start, claims, held, withheld = time.process_time(), 0, 0.0, 0
    for place in range(first, first + number):
        outcome = cell.trial(generator_of(cell.subject or cell.key, place))
        if outcome is None:
            withheld += 1
        else:
            claims, held = claims + 1, held + float(outcome)
    return Count(claims, held, withheld, time.process_time() - start)


def is_kept(cell: Cell, count: Count) -> bool:
    """Return whether the nominal share is within exact 95 % limits, or on the safe side of them."""
    if cell.kind in ("power", "measured") or count.claims == 0:
        return True
    low, high = count.limits
    return bool(low <= cell.nominal if cell.kind == "level" else high >= cell.nominal)


def wanted(cell: Cell, done: Done) -> tuple[str, int, int]:
    """Return under which key a cell is simulated, how often in all, and the number of the first simulation."""
    count = done.get(cell.key, Count())
    if count.total < cell.simulations or is_kept(cell, count):
        return cell.key, cell.simulations, 0
    return cell.key + AGAIN, IN_DOUBT * cell.simulations, cell.simulations


def final(cell: Cell, done: Done) -> Count:
    """Return the simulations of a cell that count: the second ones if there are any."""
    again = done.get(cell.key + AGAIN, Count())
    return again if again.total else done.get(cell.key, Count())


def is_complete(cell: Cell, done: Done) -> bool:
    key, number, _ = wanted(cell, done)
    return done.get(key, Count()).total >= number


def append(path: Path, key: str, count: Count) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"cell": key, **count._asdict()}) + "\n")


def run(path: Path, only: str, minutes: float, simulations: int, part: tuple[int, int]) -> None:
    """Run what is missing; the cells take turns, so that an interrupted run has some simulations of each."""
    done = stored(path)
    every = list(cells())
    subjects = {cell.subject or cell.key: 0 for cell in every}
    place_of = {subject: place for place, subject in enumerate(subjects)}
    chosen = [
        cell for cell in every if only in cell.key and place_of[cell.subject or cell.key] % part[1] == part[0]
    ]
    end = time.monotonic() + 60 * minutes
    # Quick cells first, those in doubt last.
    tiers: list[list[Cell]] = [[], [], []]
    for cell in chosen:
        tiers[2 if cell.simulations < MANY else int(cell.claim.startswith(SLOWER))].append(cell)
    for tier in tiers:
        for goal in GOALS:
            for cell in tier:
                go_on(path, cell.key, cell, min(goal, cell.simulations, simulations), 0, done, end)
    for cell in chosen:
        key, number, offset = wanted(cell, done)
        if key != cell.key:
            go_on(path, key, cell, number, offset, done, end)


def go_on(path: Path, key: str, cell: Cell, number: int, offset: int, done: Done, end: float) -> None:
    """Simulate a cell up to a number of simulations, unless the time is over."""
    while (count := done.get(key, Count())).total < number and time.monotonic() < end:
        batch = simulate(cell, offset + count.total, min(BATCH, number - count.total))
        done[key] = count + batch
        append(path, key, batch)


def run_before(path: Path, tree: Path, simulations: int) -> None:
    """Run the simulations of power with the package of another tree."""
    if not (tree / "calibrant" / "__init__.py").exists():
        raise SystemExit(f"{tree} holds no package calibrant; pass the folder src of a tree.")
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree.resolve()), str(here)])}
    done = stored(path)
    for cell in power_cells(f"{BEFORE}verdict: power"):
        first = done.get(cell.key, Count()).total
        number = min(cell.simulations, simulations) - first
        if number <= 0:
            continue
        command = [sys.executable, str(here / "promises_power.py"), cell.scenario, str(first), str(number)]
        asked = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        append(path, cell.key, Count(number, float(asked.stdout)))
        print(f"{cell.scenario}: {100 * float(asked.stdout) / number:.1f} %", flush=True)


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def with_limits(count: Count) -> str:
    low, high = count.limits
    return f"{percent(count.held / count.claims)} % ({percent(low)} to {percent(high)})"


def shown(cell: Cell, done: Done) -> str:
    """Return the share of one cell for a table, with the share without a claim after a stroke."""
    count = final(cell, done)
    if count.total == 0:
        return "not run"
    if count.claims == 0:
        return "none"
    bold = "" if is_kept(cell, count) else "**"
    withheld = f" / {100 * count.withheld / count.total:.0f}" if count.withheld else ""
    few = " (few)" if count.claims < MIN_CLAIMS <= count.total else ""
    return f"{bold}{percent(count.held / count.claims)}{bold}{withheld}{few}"


def tables(title: str, claims: dict[str, str], by_claim: dict[str, list[Cell]], done: Done) -> str:
    """Return a table with one line for each scenario and one column for each claim of a group."""
    scenarios = list(dict.fromkeys(cell.scenario for claim in claims for cell in by_claim[claim]))
    places = {(cell.claim, cell.scenario): cell for claim in claims for cell in by_claim[claim]}
    lines = ["| scenario | " + " | ".join(claims.values()) + " |", "|---|" + "---|" * len(claims)]
    for scenario in scenarios:
        found = [places.get((claim, scenario)) for claim in claims]
        values = ["" if cell is None else shown(cell, done) for cell in found]
        lines.append(f"| {scenario} | " + " | ".join(values) + " |")
    return f"## {title}\n\n{ABOUT[title]}\n\n" + "\n".join(lines) + "\n"


def power_table(done: Done) -> str:
    lines = ["| scenario | before | now |", "|---|---|---|"]
    for now, old in zip(power_cells(), power_cells(f"{BEFORE}verdict: power"), strict=True):
        values = [
            with_limits(done[cell.key]) if done.get(cell.key, Count()).claims else "not run"
            for cell in (old, now)
        ]
        lines.append(f"| {now.scenario} | " + " | ".join(values) + " |")
    return f"## Power of the verdict\n\n{ABOUT['Power of the verdict']}\n\n" + "\n".join(lines) + "\n"


def summary(by_claim: dict[str, list[Cell]], done: Done) -> str:
    """Return one line for each claim, with its worst case."""
    lines = [
        "| claim | nominal | worst case | in | scenarios | no claim |",
        "|---|---|---|---|---|---|",
    ]
    for claims in GROUPS.values():
        for claim, name in claims.items():
            chosen = by_claim[claim]
            counts = {cell.scenario: final(cell, done) for cell in chosen}
            kind, nominal = chosen[0].kind, 100 * chosen[0].nominal
            if kind in ("power", "measured"):
                continue
            withheld = sum(count.withheld for count in counts.values())
            total = max(1, sum(count.total for count in counts.values()))
            measured = [one for one in chosen if counts[one.scenario].claims >= MIN_CLAIMS]
            sign = 1 if kind == "level" else -1

            def badness(cell: Cell, sign: int = sign, counts: dict[str, Count] = counts) -> float:
                return sign * counts[cell.scenario].held / counts[cell.scenario].claims

            cell = max(measured, key=badness, default=None)
            is_none = any(count.total for count in counts.values()) and not any(
                count.claims for count in counts.values()
            )
            found, where = "withdrawn" if is_none else "too few simulations", ""
            if cell is not None:
                bold = "" if is_kept(cell, counts[cell.scenario]) else "**"
                found, where = f"{bold}{with_limits(counts[cell.scenario])}{bold}", cell.scenario
            limit = f"{'at most ' if kind == 'level' else ''}{nominal:g} %"
            share = f"{100 * withheld / total:.0f} %" if withheld else ""
            lines.append(f"| {name} | {limit} | {found} | {where} | {len(chosen)} | {share} |")
    return "\n".join(lines) + "\n"


def page(done: Done) -> str:
    """Return the page of the documentation."""
    every = list(cells())
    by_claim: dict[str, list[Cell]] = defaultdict(list)
    for cell in every:
        by_claim[cell.claim].append(cell)
    short = [cell for cell in every if not is_complete(cell, done)]
    again = [cell for cell in every if done.get(cell.key + AGAIN, Count()).total]
    wrong = [cell for cell in every if not is_kept(cell, final(cell, done))]
    total = sum(count.total for count in done.values())
    seconds = sum(count.seconds for count in done.values())
    extent = (
        f"{len(every)} cells, {total:,} simulations, {seconds / 60:.0f} minutes of CPU time; "
        f"{len(again)} cells were in doubt, {len(wrong)} stay on the wrong side of their limits."
    )
    if short:
        totals = [final(cell, done).total for cell in every]
        many = sum(total >= 200 for total in totals)
        extent += (
            f" The run was stopped early: {len(short)} cells have fewer simulations than planned; {totals.count(0)} have none, "
            f"{many} have 200 or more, and half have {int(np.median(totals))} or more."
        )
    parts = [INTRODUCTION, extent + "\n", summary(by_claim, done), AGAIN_TEXT]
    for title, claims in GROUPS.items():
        parts.append(
            power_table(done) if title == "Power of the verdict" else tables(title, claims, by_claim, done)
        )
    parts.append(SOURCES)
    return "\n".join(parts)


def part_of(text: str) -> tuple[int, int]:
    number, of = map(int, text.split("/"))
    return number - 1, of


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--only", default="", help="run cells whose name contains this")
    parser.add_argument("--simulations", type=int, default=400, help="at most this many in each cell")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after this time")
    parser.add_argument("--part", type=part_of, default=(0, 1), help="such as 1/2: every second cell")
    parser.add_argument("--before", type=Path, help="folder that holds the package of another tree")
    parser.add_argument("--page", type=Path, help="write the page from the results, without simulations")
    parser.add_argument("--cells", action="store_true", help="print every cell, without simulations")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    if options.before is not None:
        run_before(options.results, options.before, options.simulations)
    elif options.page is not None:
        options.page.write_text(page(stored(options.results)), encoding="utf-8")
    else:
        if not options.cells:
            run(options.results, options.only, options.minutes, options.simulations, options.part)
        done = stored(options.results)
        for cell in cells():
            count = final(cell, done)
            if options.only in cell.key and count.total:
                mark = "" if is_kept(cell, count) else "  WRONG SIDE"
                share = with_limits(count) if count.claims else "no claim"
                took = f"{1000 * count.seconds / count.total:.1f} ms"
                print(f"{cell.key}: {share}, {count.withheld} of {count.total} without, {took}{mark}")


if __name__ == "__main__":
    main()

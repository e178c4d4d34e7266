"""The page about all claims: a table of verdicts, then each claim with its findings and its figure."""

from collections.abc import Sequence
from pathlib import Path

from regard.claims.result import FIGURES, Result, stored_results

PAGE = "claims.md"
MARKS = {"holds": "✓ holds", "does not hold": "✗ does not hold", "inconclusive": "? inconclusive"}
PLURAL = {"holds": "hold", "does not hold": "do not hold"}


def write_page(folder: Path) -> Path:
    """Writes the page of all that an output folder keeps."""
    file = folder / PAGE
    file.write_text(page(stored_results(folder)), encoding="utf-8")
    return file


def page(results: Sequence[Result]) -> str:
    """The page as Markdown."""
    counts = {verdict: sum(result.verdict == verdict for result in results) for verdict in MARKS}
    told = ", ".join(
        f"{count} {verdict if count == 1 else PLURAL.get(verdict, verdict)}"
        for verdict, count in counts.items()
        if count
    )
    return "\n".join([
        "# The lectures' claims, measured", "",
        "Written by `regard claims --out docs` from the numbers in [measurements/claims](measurements/claims);",
        "nothing here is typed by hand. A verdict follows from the numbers by a rule in the claim's file, under",
        "`src/regard/claims`.", "",
        f"Of {len(results)} claims: {told}.", "",
        "| | claim | verdict | what was found |", "|---|---|---|---|", *map(_row, results), "",
        *(line for result in results for line in _section(result)),
    ])  # fmt: skip


def _row(result: Result) -> str:
    name = result.claim.name
    return f"| [{name.upper()}](#{name}) | {result.claim.title} | {MARKS[result.verdict]} | {result.headline} |"


def _section(result: Result) -> list[str]:
    claim = result.claim
    quick = " **Measured in quick mode: these numbers prove nothing.**" if result.quick else ""
    return [
        f'<a id="{claim.name}"></a>', "", f"## {claim.name.upper()}: {claim.title}", "",
        f"> {claim.says}", "", f"**{MARKS[result.verdict]}.** {result.headline}.{quick}", "",
        f"![{result.headline}]({(FIGURES / f'{claim.name}.png').as_posix()})", "",
        "| said | measured | verdict |", "|---|---|---|",
        *(f"| {one.said} | {one.measured} | {one.verdict} |" for one in result.findings), "",
        f"How: {claim.how}", "",
        f"Seed {result.seed}, {result.seconds:.0f} s on {result.machine}.", "",
    ]  # fmt: skip

"""Writes train.tsv, valid.tsv and test.tsv: questions about invented countries in one column, answers in the other.

    python examples/questions/make.py

Every fact is asked for in the training file, but not in every way: in the other files it is asked for as it never was.
"""

import random
from pathlib import Path

WAYS = {
    "capital": ["What is the capital of {} ?", "Which city governs {} ?", "Name the capital of {} ."],
    "river": ["Which river flows through {} ?", "What is the river of {} called ?", "Name the river of {} ."],
    "language": ["Which language do they speak in {} ?", "What is spoken in {} ?", "Name the language of {} ."],
    "coin": ["What do people pay with in {} ?", "Which coin is used in {} ?", "Name the coin of {} ."],
    "founder": ["Who founded {} ?", "By whom was {} founded ?", "Name the founder of {} ."],
    "year": ["When was {} founded ?", "In which year did {} begin ?", "Name the year in which {} began ."],
}
ENDINGS = {"country": "ia", "capital": "burg", "river": "a", "language": "ish", "coin": "o", "founder": "us"}
COUNTRIES = 40
HELD_OUT = {"valid": 100, "test": 100}


def invented(draw: random.Random, kind: str) -> str:
    """A name nobody has."""
    syllables = [draw.choice("bdfglmnprstv") + draw.choice("aeiou") for _ in range(2)]
    return ("".join(syllables) + draw.choice("lmnrst") + ENDINGS[kind]).capitalize()


def facts(draw: random.Random) -> dict[tuple[str, str], str]:
    """What is to be known about each country."""
    countries = sorted({invented(draw, "country") for _ in range(2 * COUNTRIES)})[:COUNTRIES]
    known: dict[tuple[str, str], str] = {}
    for country in countries:
        for kind in WAYS:
            known[country, kind] = str(draw.randint(1100, 1899)) if kind == "year" else invented(draw, kind)
    return known


def main(folder: Path = Path(__file__).parent) -> None:
    """Writes the three files."""
    draw = random.Random(1)
    train: list[str] = []
    unasked: list[str] = []
    for (country, kind), answer in facts(draw).items():
        ways = draw.sample(WAYS[kind], len(WAYS[kind]))
        asked = [f"{way.format(country)}\t{answer}" for way in ways]
        train += asked[:-1]
        unasked.append(asked[-1])
    draw.shuffle(train)
    draw.shuffle(unasked)
    rest, held_out = iter(unasked), {}
    for name, size in HELD_OUT.items():
        held_out[name] = [next(rest) for _ in range(size)]
    for name, rows in {"train": [*train, *rest], **held_out}.items():
        (folder / f"{name}.tsv").write_text("\n".join(["question\tanswer", *rows]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

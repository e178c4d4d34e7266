"""Writes train.tsv, valid.tsv and test.tsv: a row of measurements in one column, the weather report in the other.

    python examples/data-to-text/make.py

What the report says depends on what is there: a wind that is not measured is not mentioned, frost is warned of, a day
that is hardly warmer than its night is told in one number. No row of one file stands in another.
"""

import random
from pathlib import Path

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
TOWNS = ["Aldbury", "Brook", "Castleton", "Dunmore", "Eastwick", "Fairhaven"]
SKIES = {"sun": "It will be sunny", "cloud": "Clouds will gather", "rain": "Rain will fall", "snow": "Snow will fall"}
WINDS = {"calm": "hardly any wind", "breeze": "a light breeze from the {}", "gale": "a gale from the {}"}
SIDES = ["north", "east", "south", "west"]
SIZES = {"train": 2500, "valid": 150, "test": 150}


def report(draw: random.Random) -> tuple[str, str]:
    """A row of measurements, and what is said about it."""
    day, town, sky = draw.choice(DAYS), draw.choice(TOWNS), draw.choice(list(SKIES))
    low = draw.randint(-12, -1) if sky == "snow" else draw.randint(-3, 18)
    high = low + draw.randint(0, 9)
    row = [f"day = {day}", f"town = {town}", f"sky = {sky}", f"low = {low}", f"high = {high}"]
    sentences = [f"{SKIES[sky]} in {town} on {day} ."]
    if high - low < 3:
        sentences.append(f"Expect about {high} degrees all day .")
    else:
        sentences.append(f"Expect {low} degrees at night and {high} by day .")
    if draw.random() < 0.6:
        wind, side = draw.choice(list(WINDS)), draw.choice(SIDES)
        row += [f"wind = {wind}"] + ([] if wind == "calm" else [f"from = {side}"])
        sentences.append(f"There will be {WINDS[wind].format(side)} .")
    if low < 0:
        sentences.append("Beware of icy roads !" if sky in ("rain", "snow") else "Beware of frost !")
    return " ; ".join(row), " ".join(sentences)


def main(folder: Path = Path(__file__).parent) -> None:
    """Writes the three files."""
    draw = random.Random(1)
    made = dict(report(draw) for _ in range(2 * sum(SIZES.values())))
    rows = iter(made.items())
    for name, size in SIZES.items():
        lines = ["data\ttext", *("\t".join(next(rows)) for _ in range(size))]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

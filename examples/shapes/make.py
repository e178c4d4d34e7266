"""Draws a small set of images: single shapes in a folder for each kind, and scenes of two with a sentence about each.

python examples/shapes/make.py        # writes train/, test/, scenes/, train.tsv and test.tsv beside this file
"""

import random
from pathlib import Path

from PIL import Image, ImageDraw

SIZE = 24
SHAPES = ("circle", "square", "triangle")
COLOURS = {"red": (214, 39, 40), "green": (44, 160, 44), "blue": (31, 80, 200), "yellow": (240, 200, 20)}
RELATIONS = {"left of": (0, 1), "above": (1, 0)}
SINGLE = {"train": 480, "test": 90}
SCENES = {"train": 1200, "test": 120}


def draw(image: Image.Image, shape: str, colour: str, top: int, left: int, size: int) -> None:
    """Paints one shape into the square that begins at (top, left)."""
    pen, box = ImageDraw.Draw(image), (left, top, left + size - 1, top + size - 1)
    if shape == "circle":
        pen.ellipse(box, COLOURS[colour])
    elif shape == "square":
        pen.rectangle(box, COLOURS[colour])
    else:
        pen.polygon(
            [(left, top + size - 1), (left + size // 2, top), (left + size - 1, top + size - 1)], COLOURS[colour]
        )


def ground(chance: random.Random) -> Image.Image:
    """A blank image, of a light colour that differs a little."""
    red, green, blue = (chance.randint(225, 255) for _ in range(3))
    return Image.new("RGB", (SIZE, SIZE), (red, green, blue))


def single(shape: str, chance: random.Random) -> Image.Image:
    """One shape of any colour, somewhere."""
    image, size = ground(chance), chance.randint(15, 20)
    draw(
        image, shape, chance.choice(list(COLOURS)), chance.randint(0, SIZE - size), chance.randint(0, SIZE - size), size
    )
    return image


def scene(chance: random.Random) -> tuple[Image.Image, str]:
    """Two shapes side by side or one above the other, and what is to be seen."""
    image, half = ground(chance), SIZE // 2
    relation, (down, right) = chance.choice(list(RELATIONS.items()))
    said = []
    for place in (0, 1):
        shape, colour = chance.choice(SHAPES), chance.choice(list(COLOURS))
        middle = [place * half if moves else half // 2 for moves in (down, right)]
        draw(image, shape, colour, *(corner + chance.randint(0, 1) for corner in middle), half - 1)
        said.append(f"a {colour} {shape}")
    return image, f" {relation} ".join(said)


def make(folder: Path) -> None:
    """Writes everything; the same each time."""
    chance = random.Random(1)
    for split, count in SINGLE.items():
        for number in range(count):
            shape = SHAPES[number % len(SHAPES)]
            file = folder / split / shape / f"{number:03}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            single(shape, chance).save(file)
    (folder / "scenes").mkdir(exist_ok=True)
    for split, count in SCENES.items():
        rows = ["image\tcaption"]
        for number in range(count):
            image, caption = scene(chance)
            name = f"scenes/{split}-{number:04}.png"
            image.save(folder / name)
            rows.append(f"{name}\t{caption}")
        (folder / f"{split}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    make(Path(__file__).parent)

"""Writes train.jsonl, valid.jsonl and test.jsonl: generated messages, each with the list of its topics, at most four.

    python examples/topics/make.py

A message has a sentence for each of its topics, in any order, and may name a topic only to say that it is not about it.
No message of one file is in another.
"""

import json
import random
from pathlib import Path

TOPICS = {
    "weather": ["It {} in {} today .", ["rains", "snows", "hails", "thaws"], ["town", "the valley", "the north"]],
    "food": ["We {} {} for dinner .", ["cook", "bake", "fry", "order"], ["soup", "dumplings", "a pie", "beans"]],
    "travel": ["The {} to {} leaves late .", ["train", "bus", "ferry"], ["the coast", "the city", "the island"]],
    "sport": ["Our team {} the {} .", ["won", "lost", "missed", "drew"], ["match", "final", "cup", "race"]],
    "music": ["She {} the {} tonight .", ["plays", "tunes", "practises"], ["violin", "organ", "drums", "flute"]],
    "money": ["The {} {} again .", ["rent", "price", "bill", "fee"], ["rose", "fell", "doubled", "changed"]],
    "health": ["My {} {} since Monday .", ["head", "knee", "back", "throat"], ["hurts", "aches", "burns"]],
    "work": ["The {} {} the report .", ["boss", "office", "intern"], ["wants", "lost", "praised", "read"]],
}
OPENINGS = ["Hello !", "Good morning .", "Just a short note .", "How are you ?", "Sorry for the delay ."]
DENIALS = ["This is not about {} .", "No word on {} .", "I will not write of {} ."]
SIZES = {"train": 1600, "valid": 200, "test": 200}


def message(draw: random.Random) -> tuple[str, list[str]]:
    """A message and its topics."""
    topics = draw.sample(sorted(TOPICS), draw.choices(range(5), [1, 3, 4, 2, 1])[0])
    sentences = []
    for topic in topics:
        template, first, second = TOPICS[topic]
        sentences.append(template.format(draw.choice(first), draw.choice(second)))
    others = [topic for topic in sorted(TOPICS) if topic not in topics]
    if draw.random() < 0.4:
        sentences.append(draw.choice(DENIALS).format(draw.choice(others)))
    draw.shuffle(sentences)
    return " ".join([draw.choice(OPENINGS), *sentences]), sorted(topics)


def main(folder: Path = Path(__file__).parent) -> None:
    """Writes the three files."""
    draw, seen = random.Random(1), set[str]()
    for name, size in SIZES.items():
        rows: list[str] = []
        while len(rows) < size:
            text, topics = message(draw)
            if text not in seen:
                seen.add(text)
                rows.append(json.dumps({"text": text, "topics": topics}))
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

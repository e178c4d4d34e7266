"""What files are for: every kind of file, with its oddities, becomes task, splits and columns that can be read."""

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from image_files import noise, png, write_folders, write_idx

from regard.data.guess.columns import GuessOptions
from regard.data.guess.task import Guess, guess_data
from regard.data.source_reader import read_examples
from regard.errors import RegardError

ENGLISH = [f"{['One', 'Two', 'Three'][number % 3]} dogs, {number} cats sleep in the old house." for number in range(30)]
GERMAN = [
    f"{['Ein', 'Zwei', 'Drei'][number % 3]} Hunde, {number} Katzen schlafen im alten Haus." for number in range(30)
]
REVIEWS = [
    (f"{'AOSW'[number % 4]} film of {number} hours, and {'fine' if number % 2 else 'dull'} to watch.", number % 2)
    for number in range(30)
]
LONG = [" ".join(f"word{number}{place}" for place in range(60)) for number in range(30)]
NAMES = ["negative", "positive"]
CONLLU = "".join(
    f"1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_\n2\t{word}\t_\tNOUN\tNN\t_\t0\troot\t_\t_\n\n"
    for word in ["dog", "cat", "bird", "cow"]
)


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def rows(pairs: list, sign: str = "\t", header: str = "", end: str = "\n") -> str:
    lines = [header] * bool(header) + [sign.join(map(str, pair)) for pair in pairs]
    return end.join(lines) + end


def guessed(folder: Path, names: list[str] | None = None, **asked: str) -> Guess:
    """The guess for files below a folder; everything it names has been read, and can be read from its recipe."""
    paths = [folder / name for name in names] if names else [folder]
    guess = guess_data(paths, folder, GuessOptions(**asked))
    for source in guess.sources.values():
        assert next(iter(read_examples(source, folder)), None) is not None
    return guess


def columns(guess: Guess) -> dict[str, object]:
    train = guess.sources["train"]
    return {
        name: getattr(train, name)
        for name in ("text", "label", "source", "target", "image")
        if getattr(train, name) is not None
    }


PAIRS = list(zip(ENGLISH, GERMAN, strict=True))
NESTED = "".join(
    json.dumps({"id": number, "translation": {"en": en, "de": de}}) + "\n" for number, (en, de) in enumerate(PAIRS)
)
TABLES = {
    "named": ("reviews.tsv", rows(REVIEWS, header="text\tlabel"), "classification", {"text": "text", "label": "label"}),
    "label first": ("a.tsv", rows([(b, a) for a, b in REVIEWS]), "classification", {"text": 1, "label": 0}),
    "no header": ("a.tsv", rows(REVIEWS), "classification", {"text": 0, "label": 1}),
    "words as labels": ("a.tsv", rows([(a, NAMES[b]) for a, b in REVIEWS]), "classification", {"text": 0, "label": 1}),
    "semicolons": (
        "a.csv",
        rows([(f'"{a}"', b) for a, b in REVIEWS], ";", "review;sentiment"),
        "classification",
        {"text": "review", "label": "sentiment"},
    ),
    "byte order mark, Windows": (
        "a.csv",
        "\ufeff" + rows([(f'"{a}"', b) for a, b in REVIEWS], ",", "review,sentiment", "\r\n"),
        "classification",
        {"text": "review", "label": "sentiment"},
    ),
    "numbered rows": (
        "a.csv",
        rows([(i, f'"{a}"', b) for i, (a, b) in enumerate(REVIEWS)], ",", ",review,sentiment"),
        "classification",
        {"text": "review", "label": "sentiment"},
    ),
    "id and stars": (
        "a.tsv",
        rows([(f"x{i}", b, b * 9 + 1, a) for i, (a, b) in enumerate(REVIEWS)], header="id\tlabel\tstars\ttext"),
        "classification",
        {"text": "text", "label": "label"},
    ),
    "target is a label": (
        "a.tsv",
        rows(REVIEWS, header="text\ttarget"),
        "classification",
        {"text": "text", "label": "target"},
    ),
    "unusual names": ("a.tsv", rows(REVIEWS, header="Was\tWie"), "classification", {"text": "Was", "label": "Wie"}),
    "languages": ("a.tsv", rows(PAIRS, header="en\tde"), "translation", {"source": "en", "target": "de"}),
    "tabs in .txt": (
        "deu.txt",
        rows([(*pair, "CC-BY 2.0 #1") for pair in PAIRS]),
        "translation",
        {"source": 0, "target": 1},
    ),
    "semicolons, quoted cells over several lines, names of languages in their own": (
        "a.csv",
        rows(
            [(i, f'"{a};\n{a}"', f'"{b}\n{b}"', "ok" * (i % 2)) for i, (a, b) in enumerate(PAIRS)],
            ";",
            "Nr.;English;Français;Note",
        ),
        "translation",
        {"source": "English", "target": "Français"},
    ),
    "a name with a question mark": (
        "a.csv",
        rows(
            [(f"Hotel {i % 3}", f'"{a}"', b, "yn"[i % 2]) for i, (a, b) in enumerate(REVIEWS)],
            ",",
            "Hotel,Review Text,Rating,Helpful?",
        ),
        "classification",
        {"text": "Review Text", "label": "Rating"},
    ),
    "records in lists": (
        "a.jsonl",
        "".join(json.dumps({"body": a, "annotations": [{"label": NAMES[b], "by": "x"}]}) + "\n" for a, b in REVIEWS),
        "classification",
        {"text": "body", "label": "annotations.0.label"},
    ),
    "conversations": (
        "a.jsonl",
        "".join(
            json.dumps({"messages": [{"role": "user", "content": a}, {"role": "assistant", "content": b}]}) + "\n"
            for a, b in PAIRS
        ),
        "translation",
        {"source": "messages.0.content", "target": "messages.1.content"},
    ),
    "nested": ("a.jsonl", NESTED, "translation", {"source": "translation.en", "target": "translation.de"}),
    "questions": (
        "a.tsv",
        rows(PAIRS, header="question\tanswer"),
        "translation",
        {"source": "question", "target": "answer"},
    ),
    "summaries": (
        "a.tsv",
        rows(list(zip(GERMAN, LONG, strict=True)), header="summary\tdocument"),
        "summarisation",
        {"source": "document", "target": "summary"},
    ),
    "long and short": (
        "a.tsv",
        rows(list(zip(LONG, GERMAN, strict=True))),
        "summarisation",
        {"source": 0, "target": 1},
    ),
    "documents": (
        "a.jsonl",
        "".join(json.dumps({"text": text, "id": i}) + "\n" for i, text in enumerate(ENGLISH)),
        "language_model",
        {"text": "text"},
    ),
    "JSON with numbers as labels": (
        "a.jsonl",
        "".join(json.dumps({"label": b, "review": a}) + "\n" for a, b in REVIEWS),
        "classification",
        {"text": "review", "label": "label"},
    ),
    "packed": (
        "a b ü.tsv.gz",
        gzip.compress(rows(REVIEWS, header="text\tlabel").encode()),
        "classification",
        {"text": "text", "label": "label"},
    ),
}


@pytest.mark.parametrize("case", TABLES)
def test_tables(tmp_path: Path, case: str):
    name, content, task, expected = TABLES[case]
    guess = guessed(write(tmp_path, {name: content}), [name])
    assert (guess.task, columns(guess)) == (task, expected)
    assert guess.counts == {"train": guess.counts["train"]}
    assert guess.counts["train"].startswith("30 ")


def test_parquet_with_images_and_labels(tmp_path: Path):
    images = [{"bytes": png(noise(number)), "path": None} for number in range(12)]
    pq.write_table(pa.table({"image": images, "label": [number % 3 for number in range(12)]}), tmp_path / "a.parquet")
    guess = guessed(tmp_path, ["a.parquet"])
    assert (guess.task, columns(guess)) == ("image_classification", {"image": "image", "label": "label"})


def test_a_table_of_image_files_and_captions(tmp_path: Path):
    write_folders(tmp_path / "pictures", {"x": 12})
    captions = [(f"pictures/x/{number:03}.png", ENGLISH[number]) for number in range(12)]
    write(tmp_path, {"captions.tsv": rows(captions, header="file\tcaption")})
    guess = guessed(tmp_path)
    assert (guess.task, columns(guess)) == ("image_description", {"image": "file", "target": "caption"})


def test_class_folders_with_splits(tmp_path: Path):
    write_folders(tmp_path / "train", {"cat": 6, "dog": 6})
    write_folders(tmp_path / "test", {"cat": 2, "dog": 2})
    guess = guessed(tmp_path)
    assert guess.task == "image_classification"
    assert {split: source.images for split, source in guess.sources.items()} == {"train": "train", "test": "test"}


def test_idx_files(tmp_path: Path):
    for name, count in (("train", 8), ("t10k", 4)):
        write_idx(tmp_path / f"{name}-images-idx3-ubyte.gz", np.random.default_rng(1).integers(0, 256, (count, 5, 5)))
        write_idx(tmp_path / f"{name}-labels-idx1-ubyte.gz", np.arange(count) % 2)
    guess = guessed(tmp_path)
    assert guess.task == "image_classification"
    assert guess.sources["test"].labels == "t10k-labels-idx1-ubyte.gz"


def text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def test_a_folder_of_texts_with_splits(tmp_path: Path):
    for split in ("train", "val", "test_2016_flickr", "test2017"):
        write(tmp_path, {f"d/{split}.en": text(ENGLISH), f"d/{split}.de": text(GERMAN), "d/README.md": "Hello"})
    guess = guessed(tmp_path, ["d"])
    assert guess.task == "translation"
    assert [source.source for source in guess.sources.values()] == ["d/train.en", "d/val.en", "d/test2017.en"]
    assert any("test_2016_flickr.en" in remark and "not used" in remark for remark in guess.remarks)
    turned = guessed(tmp_path, ["d"], source="de", target="en")
    assert [source.source for source in turned.sources.values()] == ["d/train.de", "d/val.de", "d/test2017.de"]


@pytest.mark.parametrize(
    ("names", "first"),
    [
        (("a.en", "a.de"), "a.en"),
        (("a.de", "a.en"), "a.de"),
        (("tgt.txt", "src.txt"), "src.txt"),
        (("Ä b.txt", "c.txt"), "Ä b.txt"),
    ],
)
def test_two_texts_in_the_order_of_the_command(tmp_path: Path, names: tuple[str, str], first: str):
    guess = guessed(write(tmp_path, {names[0]: text(ENGLISH), names[1]: text(GERMAN)}), list(names))
    assert (guess.task, guess.sources["train"].source) == ("translation", first)


def test_many_languages_need_a_word(tmp_path: Path):
    write(tmp_path, {f"train.{code}": text(ENGLISH) for code in ("en", "de", "fr")})
    with pytest.raises(RegardError, match="--source NAME and --target NAME decide it"):
        guessed(tmp_path)
    guess = guessed(tmp_path, source="fr", target="en")
    assert (guess.sources["train"].source, guess.sources["train"].target) == ("train.fr", "train.en")


def test_one_text_is_a_language_model(tmp_path: Path):
    guess = guessed(write(tmp_path, {"story.txt": text(ENGLISH)}), ["story.txt"])
    assert (guess.task, guess.sources["train"].file) == ("language_model", "story.txt")


def test_treebanks(tmp_path: Path):
    write(
        tmp_path, {"x-train.conllu": CONLLU * 2, "x-dev.conllu": CONLLU, "x.conllu.gz": gzip.compress(CONLLU.encode())}
    )
    guess = guessed(tmp_path)
    assert (guess.task, [*guess.sources]) == ("tagging", ["train", "valid"])
    xpos = guessed(write(tmp_path / "b", {"t.conllu": CONLLU.replace("DET", "_")}))
    assert xpos.sources["train"].tags == "xpos"


def test_a_test_table_without_labels_is_left_out(tmp_path: Path):
    write(tmp_path, {"train.tsv": rows(REVIEWS, header="text\tlabel"), "test.tsv": "id\ttext\n1\tA film.\n"})
    guess = guessed(tmp_path)
    assert [*guess.sources] == ["train"]
    assert "it has no column label" in guess.remarks[0]


def test_columns_that_are_asked_for(tmp_path: Path):
    write(tmp_path, {"a.tsv": rows([(a, b, 1 - b, a) for a, b in REVIEWS], header="one\tx\ty\ttwo")})
    with pytest.raises(
        RegardError, match=r"a\.tsv: cannot tell which column holds the label .*--text COLUMN and --label"
    ):
        guessed(tmp_path)
    guess = guessed(tmp_path, text="two", label="y")
    assert columns(guess) == {"text": "two", "label": "y"}
    assert columns(guessed(tmp_path, source="one", target="two")) == {"source": "one", "target": "two"}
    assert columns(guessed(tmp_path, task="language_model", text="0")) == {"text": "one"}


BAD = {
    "empty": ({"a.tsv": ""}, {}, r"a\.tsv: no examples"),
    "header only": ({"a.tsv": "text\tlabel\n"}, {}, r"a\.tsv: a header and no examples below it"),
    "unequal": ({"a.en": text(ENGLISH), "a.de": text(GERMAN[:20])}, {}, r"a\.en:21: no partner for this line"),
    "ragged": ({"a.tsv": rows(REVIEWS, header="text\tlabel") + "x\n"}, {}, r"a\.tsv:32: expected 2 columns"),
    "latin1": ({"a.txt": "Käse\n".encode("latin1")}, {}, r"a\.txt:1: not UTF-8"),
    "not JSON": ({"a.jsonl": '{"text": 1\n'}, {}, r"a\.jsonl:1: not JSON"),
    "json": ({"a.json": "[]"}, {}, r"a\.json: '\.json' files are not read"),
    "one class": (
        {"a.tsv": rows([(a, "pos") for a, _ in REVIEWS], header="text\tlabel")},
        {"label": "label"},
        "all 30 examples",
    ),
    "unknown task": (
        {"a.txt": "x\n"},
        {"task": "translate"},
        "--task: no task is called 'translate'; did you mean 'translation'",
    ),
    "task that does not fit": ({"a.txt": text(ENGLISH)}, {"task": "classification"}, "--task: expected labelled texts"),
    "no such column": (
        {"a.tsv": rows(REVIEWS, header="text\tlabel")},
        {"text": "txt"},
        "--text: .*a.tsv has no column 'txt'; did you mean 'text'",
    ),
    "numbers only": (
        {"a.tsv": rows([(number, number * 2) for number in range(9)])},
        {},
        r"a\.tsv: cannot tell which task it is for",
    ),
    "text and labels": ({"a.txt": text(ENGLISH), "a.labels": text(["1", "0"] * 15)}, {}, r"looks like labels .*paste"),
    "only two splits": ({"test.tsv": rows(REVIEWS), "dev.tsv": rows(REVIEWS)}, {}, "no training data among"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_one_sentence(tmp_path: Path, case: str):
    files, asked, sentence = BAD[case]
    write(tmp_path, files)
    with pytest.raises(RegardError, match=sentence) as caught:
        guess_data([tmp_path / name for name in files], tmp_path, GuessOptions(**asked))
    assert "\n" not in str(caught.value)


def test_missing_files_and_folders_without_data(tmp_path: Path):
    with pytest.raises(RegardError, match="no such file"):
        guess_data([tmp_path / "nothing.tsv"], tmp_path, GuessOptions())
    with pytest.raises(RegardError, match="no data in this folder"):
        guess_data([tmp_path], tmp_path, GuessOptions())


def test_a_text_that_ends_like_an_image_is_a_text(tmp_path: Path):
    letters = [f"{'Dear' * 90} friend {number}, here it is: a.JPG" for number in range(12)]
    guess = guessed(
        write(tmp_path, {"a.tsv": rows(list(zip(letters, GERMAN, strict=False)), header="body\tsubject_line")})
    )
    assert guess.task in ("translation", "summarisation")


def test_answers_that_repeat_now_and_then_are_texts(tmp_path: Path):
    answers = [f"Word{chr(97 + number % 26)}" for number in range(60)]
    questions = [f"{ENGLISH[number % 30]} {number}?" for number in range(60)]
    write(tmp_path, {"a.tsv": rows(list(zip(questions, answers, strict=True)), header="question\tanswer")})
    assert guessed(tmp_path).task == "translation"


def test_the_column_that_is_taken_for_the_text_is_called_a_text(tmp_path: Path):
    rows = [f"produit{number};{'positif' if number % 2 else 'négatif'}" for number in range(40)]
    write(tmp_path, {"avis.csv": "\n".join(["avis;sentiment", *rows]) + "\n"})
    guess = guess_data([tmp_path / "avis.csv"], tmp_path, GuessOptions())
    assert columns(guess) == {"text": "avis", "label": "sentiment"}
    assert guess.seen[0] == "column avis: single words", "not: numbers, dates, ids or addresses"


def test_texts_that_begin_alike_are_called_texts_where_they_are_taken_for_them(tmp_path: Path):
    rows = [f"un film numéro {number};{'bon' if number % 2 else 'mal'}" for number in range(40)]
    write(tmp_path, {"avis.csv": "\n".join(["avis;note", *rows]) + "\n"})
    guess = guess_data([tmp_path / "avis.csv"], tmp_path, GuessOptions())
    assert guess.seen == ["column avis: text, 4 words on average", "column note: 2 different values: mal, bon"]


def test_texts_made_from_a_template_are_texts_by_the_name_of_their_column(tmp_path: Path):
    tickets = [
        (number, f"The customer says that it is {number}: {NAMES[number % 2]}", number % 2) for number in range(60)
    ]
    write(tmp_path, {"t.csv": rows(tickets, ",", "id,message,stars")})
    guess = guessed(tmp_path, ["t.csv"])
    assert guess.task == "classification"
    assert columns(guess) == {"text": "message", "label": "stars"}


@pytest.mark.parametrize("number", [6, 700])
def test_a_file_for_each_text_by_class_is_refused_with_what_to_do(tmp_path: Path, number: int):
    names = [f"{split}/{kind}/{n}.txt" for split in ("train", "test") for kind in ("pos", "neg") for n in range(number)]
    write(tmp_path, {name: f"A film, {name}" for name in names})
    with pytest.raises(
        RegardError, match=r"a file for each text, in folders by class \(neg, pos\), is not read; put them"
    ):
        guessed(tmp_path)


@pytest.mark.parametrize("name", ["de.mo", "letter.odt"])
def test_formats_that_are_no_plain_text_are_not_taken_for_it(tmp_path: Path, name: str):
    write(tmp_path, {name: 'msgid "Open"\nmsgstr "Auf"\n'})
    with pytest.raises(RegardError, match="files are not read; convert it"):
        guessed(tmp_path, [name])


def test_how_to_convert_is_said(tmp_path: Path):
    write(tmp_path, {"a.json": "[]", "one line.txt": "word " * 500})
    with pytest.raises(RegardError, match=r"jq -c '\.\[\]' in\.json > out\.jsonl"):
        guessed(tmp_path, ["a.json"])
    with pytest.raises(RegardError, match="break it into lines: fold -s"):
        guessed(tmp_path, ["one line.txt"])

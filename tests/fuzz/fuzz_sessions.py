"""Sessions: a few random files and a few command lines that follow one another. All of it follows from one seed.

session = Session(seed=7, folder=empty_folder)
for case in session.cases(): ...            # each command line with what it did and what is wrong with that
"""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import isclose
from pathlib import Path
from random import Random
from typing import Any

import fuzz_oracle as oracle
from fuzz_command import Outcome, hastened, inside, run_command
from fuzz_data import ODD, RARE, Corpus, make_corpus, picture, sentence
from fuzz_recipes import CONTENT, MODELS, as_override, as_toml, make_recipe, random_setting, small_model

EXTRAS = {
    "ctranslate2": ["ctranslate2"],
    "huggingface": ["transformers"],
    "onnx": ["onnx", "onnxruntime", "onnxscript"],
}
VERBS = {
    "translation": "translate", "summarisation": "translate", "image_description": "translate",
    "language_model": "generate", "classification": "classify", "tagging": "classify",
    "image_classification": "classify",
}  # fmt: skip
PATHS = [
    "", "model", "model.position", "model.attention.kind", "train.schedule.lr", "search.beam", "data.train.file", "x",
    "a.b.c", ".",
]  # fmt: skip
HELPED = [
    "init", "recipes",
    "train", "evaluate", "translate", "generate", "classify", "look", "compare", "export", "import", "serve", "bench",
]  # fmt: skip


def missing_extras() -> list[str]:
    """Targets of export and engines that cannot be tried here."""
    return [name for name, modules in EXTRAS.items() if not all(find_spec(module) for module in modules)]


@dataclass
class Case:
    """One command line and what is wrong with what it did."""

    seed: int
    number: int
    outcome: Outcome
    problems: list[str]
    stdin: bytes = b""


@dataclass
class Trained:
    """A run that a session has made, and what it was made from."""

    folder: str
    task: str
    corpus: Corpus
    recipe: str
    overrides: list[str]
    pristine: bool
    """Whether data settings are as the corpus says, so that numbers of examples are known."""
    steps: int


@dataclass
class Session:
    """The random files and command lines of one seed."""

    seed: int
    folder: Path
    begin: Callable[[int, int, Sequence[str]], None] = lambda *_: None
    """Called before each command line with the seed, its number and its words."""
    number: int = 0
    runs: list[str] = field(default_factory=list)
    made: list[Case] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    def cases(self) -> Iterator[Case]:
        """Runs the session; everything lies below its folder."""
        plans = {self._config: 14, self._data: 14, self._mistakes: 5, self._train: 60, self._compare: 4}
        plan = self.random.choices(list(plans), list(plans.values()))[0]
        whole = self.random.random() < 0.05
        with inside(self.folder), nullcontext() if whole else hastened():
            for _ in plan():
                yield from self.made
                self.made.clear()
        yield from self.made

    def command(
        self,
        *words: str,
        stdin: bytes = b"",
        targets: Sequence[str] = (),
        check: Callable[[Outcome], list[str]] | None = None,
        exact: bool = False,
    ) -> Outcome:
        """Runs one command line and says what is wrong with it; `check` reads the result of a success."""
        changed_words = list(words) if exact or self.random.random() > 0.03 else self._garbled(words)
        garbled = changed_words != list(words)
        before = oracle.digest(self.folder)
        self.begin(self.seed, self.number, changed_words)
        outcome = run_command(changed_words, stdin)
        problems = oracle.plain_problems(outcome)
        changed = oracle.changed_paths(before, oracle.digest(self.folder))
        if not problems and not (garbled and outcome.code == 0):
            problems = oracle.change_problems(outcome, changed, targets, self.runs)
        if not problems and not garbled and check is not None and outcome.code == 0:
            try:
                problems = check(outcome)
            except Exception as error:  # a result that cannot even be read
                problems = [f"reading the result back: {type(error).__name__}: {error}"]
        self.made.append(Case(self.seed, self.number, outcome, problems, stdin))
        self.number += 1
        return outcome

    def _garbled(self, words: Sequence[str]) -> list[str]:
        """The same words with one mistake."""
        wrong, position = list(words), self.random.randrange(len(words))
        mistake = self.random.choice(["drop", "twice", "option", "value", "swap"])
        if mistake == "drop":
            del wrong[position]
        elif mistake == "twice":
            wrong.insert(position, wrong[position])
        elif mistake == "swap":
            self.random.shuffle(wrong)
        else:
            wrong.insert(
                position + 1,
                self.random.choice(["--nothing", "-x", "", "a=b", "=", "--json", "ä\u2028", "-1", "../.."]),
            )
        return wrong or ["--nothing"]

    def _maybe(self, share: float, *words: str) -> list[str]:
        return list(words) if self.random.random() < share else []

    # Configurations

    def _corpus(self, task: str, name: str = "data") -> Corpus:
        (self.folder / name).mkdir(exist_ok=True)
        return make_corpus(self.random, self.folder / name, CONTENT[task], clean=self.random.random() < 0.75)

    def _recipe(self, task: str, corpus: Corpus, changes: int, name: str = "recipe") -> tuple[str, dict[str, Any]]:
        """A recipe file beside the data."""
        tree = make_recipe(self.random, task, corpus, changes)
        if self.random.random() < 0.7:
            tree = {"defaults": "fixed", **tree}
        file = f"data/{name}.toml"
        text = as_toml(tree)
        if self.random.random() < 0.02:
            text = text[: self.random.randrange(len(text))]
        (self.folder / file).write_text(text, encoding="utf-8")
        return file, tree

    def _overrides(self, tree: dict[str, Any], most: int) -> list[str]:
        count = self.random.randint(0, most)
        return [as_override(*random_setting(self.random, tree)) for _ in range(count)]

    def _config(self) -> Iterator[None]:
        for number in range(self.random.randint(3, 9)):
            task = self.random.choice(list(CONTENT))
            corpus = Corpus(CONTENT[task], {}, odd=False)
            (self.folder / "data").mkdir(exist_ok=True)
            file, tree = self._recipe(task, corpus, self.random.randint(0, 3), f"r{number}")
            as_json = self._maybe(0.4, "--json")
            shape = self.random.choice(["check", "check", "check", "overrides", "explain", "all", "schema"])
            if shape == "check":
                self.command(
                    "config", "--check", file, *self._overrides(tree, 3), *as_json, check=_resolved(bool(as_json))
                )
            elif shape == "overrides":
                words = self._overrides(tree, 4) or ["seed=3"]
                self.command("config", *words, *as_json, check=_resolved(bool(as_json)))
            elif shape == "explain":
                path = (
                    ".".join(random_setting(self.random, tree)[0])
                    if self.random.random() < 0.6
                    else self.random.choice(PATHS)
                )
                self.command("config", "--explain", path, *as_json, check=_json_if(bool(as_json)))
            elif shape == "all":
                self.command("config", *as_json, check=_json_if(bool(as_json)))
            else:
                self.command("config", "--schema", check=_json_if(True))
            yield

    # Data

    def _data(self) -> Iterator[None]:
        for number in range(self.random.randint(1, 3)):
            task = self.random.choice(list(CONTENT))
            name = f"data{number}" if number else "data"
            corpus = self._corpus(task, name)
            tree = make_recipe(self.random, task, corpus, 0)
            (self.folder / name / "recipe.toml").write_text(as_toml(tree), encoding="utf-8")
            as_json = self._maybe(0.6, "--json")
            truth = {split: made.count for split, made in corpus.splits.items()}
            self.command("data", "check", f"{name}/recipe.toml", *as_json, check=_counted(truth, bool(as_json)))
            yield
            paths = [f"{name}/{path}" for split in corpus.splits.values() for path in split.paths]
            if paths:
                chosen = self.random.sample(paths, self.random.randint(1, len(paths)))
                self.command("data", "check", *chosen, *as_json, check=_json_if(bool(as_json)))
                yield
                yield from self._init(task, chosen, number)

    def _init(self, task: str, files: list[str], number: int) -> Iterator[None]:
        """A recipe for these files, which `config --check` takes."""
        file = f"made{number}.toml"
        words = ["init", *files, "--out", file, *self._maybe(0.4, "--task", self.random.choice([task, task, "x"]))]
        for option in ("--text", "--label", "--source", "--target"):
            words += self._maybe(0.1, option, self.random.choice(["text", "label", "source", "target", "0", "1", "9"]))
        if self.command(*words, *self._maybe(0.1, "--force"), targets=[file]).code == 0 and Path(file).is_file():
            yield
            outcome = self.command("config", "--check", file, exact=True)
            if outcome.code != 0:
                self.made[-1].problems.append(f"init wrote a recipe that is refused: {outcome.stderr[-300:]}")
        yield

    # Mistakes: what is asked for cannot be

    def _mistakes(self) -> Iterator[None]:
        (self.folder / "empty").mkdir()
        (self.folder / "a.txt").write_text("a dog\n", encoding="utf-8")
        (self.folder / "a.toml").write_text(
            self.random.choice(["", "task = 3\n", "[model\n", "\ufeff", "\x00"]), encoding="utf-8"
        )
        nothing = self.random.choice(
            ["nothing", "empty", "a.txt", "a.toml", "../..", "~nobody/x", "x" * 300, "", "a\nb"]
        )
        lines = [
            ["--version"], ["--help"], [], ["nothing"], ["train"], ["train", nothing], ["data"], ["data", "check"],
            ["train", "a.toml", "--out", nothing], ["train", nothing, "--resume"], ["evaluate", nothing],
            ["translate", nothing], ["generate", nothing], ["classify", nothing], ["look", nothing, "a dog"], ["look"],
            ["export", nothing, "--to", "onnx"], ["export", nothing, "--to", nothing], ["data", "check", nothing],
            ["import", nothing, "--out", "new"], ["import", "empty", "--out", "new"], ["compare", nothing],
            ["compare", nothing, "--scaling"], ["claims", "f99"], ["claims", "--help"],
            ["claims", "--stored", "--out", nothing], ["bench", "--only", nothing], ["bench", "--peers", nothing],
            ["bench", nothing, "--quick"], ["demo", "model.widht=3"], ["demo", "--out", "a.txt"],
            ["config", "--check", nothing], ["config", "--explain", nothing], ["config", nothing], ["serve", nothing],
            ["serve", "a=b=c", "--port", "0"], ["translate", nothing, "--engine", "x"],
            ["init"], ["init", nothing], ["init", "a.txt", "--out", nothing], ["recipes"], ["recipes", nothing],
            ["recipes", "--copy", nothing], ["recipes", "demo"],
            ["translate", nothing, "--beam", "0"], ["generate", nothing, "--top-p", "7"],
        ]  # fmt: skip
        lines += [[verb, "--help"] for verb in HELPED]
        for words in self.random.sample(lines, self.random.randint(4, 12)):
            copied = [str(Path(words[-1]) / name) for name in ("examples", "recipes")] if "--copy" in words else []
            self.command(*words, exact=True, targets=["pattern.png", "page.html", *copied])
            yield

    # Training, and what can be done with a run

    def _train(self) -> Iterator[None]:
        task = self.random.choice(list(CONTENT))
        corpus = self._corpus(task)
        trained = None
        for attempt in range(3):
            changes = self.random.choice([0, 0, 1, 1, 2, 3, 5]) if attempt < 2 else 0
            trained = self._trained(task, corpus, f"run{attempt or ''}", changes)
            yield
            if trained is not None:
                break
        if trained is None:
            return
        steps = {
            self._evaluate: 5, self._agree: 1.5, self._write: 8, self._resume: 3, self._again: 1, self._damaged: 5,
            self._look: 1.2,
            self._export: 1.5, self._from: 2, self._check_run: 1, self._stranger: 2,
        }  # fmt: skip
        for step in self.random.choices(list(steps), list(steps.values()), k=self.random.randint(3, 10)):
            for _ in step(trained):
                yield

    def _trained(self, task: str, corpus: Corpus, out: str, changes: int) -> Trained | None:
        file, tree = self._recipe(task, corpus, changes, f"recipe-{out}")
        overrides = self._overrides(tree, 1) if changes > 1 else []
        named = self.random.random() < 0.9
        target = out if named else f"runs/recipe-{out}"
        words = ["train", file, *overrides, *(["--out", out] if named else []), *self._maybe(0.05, "--skip-bad")]
        recipe, steps = _expected(file, [*overrides, *(["train.skip_bad=true"] if "--skip-bad" in words else [])])
        self.runs.append(target)
        outcome = self.command(
            *words, targets=[target], check=lambda _: oracle.run_problems(self.folder / target, recipe, steps)
        )
        if outcome.code != 0 or not (self.folder / target / "recipe.toml").is_file():
            self.runs.remove(target)
            shutil.rmtree(self.folder / target, ignore_errors=True)
            return None
        pristine = changes == 0 and not corpus.odd and "max_length" not in tree["data"]
        return Trained(target, task, corpus, file, overrides, pristine, steps or 1)

    def _evaluate(self, run: Trained) -> Iterator[None]:
        split = self.random.choice([*run.corpus.splits, *run.corpus.splits, "test", "valid", ""])
        as_json = self._maybe(0.6, "--json")
        words = ["evaluate", run.folder, *(["--data", split] if split else []), *as_json]
        if self.random.random() < 0.15 and split in run.corpus.splits:
            words[3] = _inline(run.corpus.splits[split].source, "data")
        words += self._maybe(0.15, "--which", self.random.choice(["best", "last", "step-1", "step-9", "x", "../x"]))
        words += self._maybe(0.2, "--search", self._search())
        words += self._maybe(0.05, "--ensemble", run.folder)
        words += self._maybe(0.05, "--unknown", self.random.choice(["replace", "keep", "x"]))
        words += self._maybe(0.1, "--device", self.random.choice(["cpu", "cuda", "tpu"]))
        targets = []
        if self.random.random() < 0.08:
            targets = [f"parts{self.number}"]
            words += ["--out", targets[0]]
        made = run.corpus.splits.get(split)
        whole = split != "train" or "valid" in run.corpus.splits  # else a part of it is held out
        known = run.pristine and whole and run.corpus.content not in ("text", "tagged")
        count = made.count if made and known else None
        self.command(*words, targets=targets, check=_scored(bool(as_json), count))
        yield

    def _agree(self, run: Trained) -> Iterator[None]:
        """What was measured while training is measured again, twice, with the same result."""
        words = ["evaluate", run.folder, "--data", "valid", "--which", "last", "--json"]
        words += ["--search", "greedy"] if VERBS.get(run.task) == "translate" else []  # as validations generate
        first = self.command(*words, check=_scored(True, None), exact=True)
        if first.code == 0 and run.pristine:
            lines = [json.loads(line) for line in (self.folder / run.folder / "metrics.jsonl").read_text().splitlines()]
            valid = [line for line in lines if line.get("split") == "valid"]
            tree = json.loads(first.stdout)
            self.made[-1].problems += _differences(valid[-1] if valid else {}, tree["metrics"], "while training")
        yield
        if first.code == 0:
            again = self.command(*words, exact=True)
            scores = [json.loads(outcome.stdout or b'{"metrics": {}}')["metrics"] for outcome in (first, again)]
            self.made[-1].problems += _differences(*scores, "before")
            yield

    def _search(self) -> str:
        return self.random.choice(
            [
                "greedy", "beam", "sample", "{kind='beam',size=3}", "{kind='beam',size=2,n_best=2,max_length=3}",
                "beem", "{}", "{kind='sample',temperature=0,max_length=4}", "{kind='greedy',max_length=0}", "3",
                "{kind='greedy',min_length=9,max_length=3}", "{kind='beam',size=99,max_length=3}",
                "{kind='greedy',no_repeat_ngram=1,max_length=9}",
            ]
        )  # fmt: skip

    def _inputs(self, run: Trained) -> tuple[bytes, list[str] | None]:
        """Lines to read, and the texts that they are; None where they must be refused."""
        texts = run.corpus.texts(self.random)
        kind = self.random.random()
        if kind < 0.15:
            texts.insert(self.random.randint(0, len(texts)), self.random.choice(["", " ", "\xa0", "\t"]))
        elif kind < 0.3:
            texts.append(" ".join([*self.random.sample(RARE, 3), self.random.choice(ODD[:10]) + "x"]))
        elif kind < 0.36:
            texts.append(sentence(self.random, 400))
        elif kind < 0.4:
            return self.random.choice([b"\xff\xfe", b"a\nb\xe4\n", b"\xed\xa0\x80"]), None
        elif kind < 0.44:
            return b"", []
        texts = [text.removesuffix("\r") for text in texts if "\n" not in text]
        end = self.random.choice(["\n", "\n", "\n", "\r\n", "" if texts and texts[-1] else "\n"])
        joined = ("\r\n" if end == "\r\n" else "\n").join(texts)
        ended = joined + end if texts else ""
        return ended.encode(), texts if ended else []

    def _pictures(self) -> list[str]:
        """Files of images, one at least, though the data may lie in an archive."""
        if not (self.folder / "data" / "one.png").exists():
            (self.folder / "data" / "one.png").write_bytes(picture(self.random, 8))
        files = [str(path.relative_to(self.folder)) for path in (self.folder / "data").rglob("*.png")]
        return sorted(files, key=lambda name: (name != "data/one.png", name))

    def _write(self, run: Trained, folder: str | None = None) -> Iterator[None]:
        verb = VERBS.get(run.task, "translate")
        if self.random.random() < 0.06:
            verb = self.random.choice(["translate", "generate", "classify"])
        self._writing(verb, run, folder or run.folder, sound=folder is None)
        yield

    def _writing(self, verb: str, run: Trained, folder: str, sound: bool) -> None:
        data, texts = self._inputs(run)
        as_json = self._maybe(0.4, "--json")
        words = [verb, folder, *as_json]
        targets: list[str] = []
        if run.corpus.content in ("images", "captions"):
            pictures = self._pictures()[: 1 if verb == "translate" else 3]
            words += pictures if self.random.random() < 0.6 else []
            texts = pictures
            data = "".join(f"{picture}\n" for picture in pictures).encode()
        elif self.random.random() < 0.3:
            file = f"input{self.number}.txt"
            (self.folder / file).write_bytes(data)
            words.append(file)
        words += self._write_options(verb, folder, targets)
        parts = targets[0] if targets else None
        inputs = texts if sound else None
        self.command(*words, stdin=data, targets=targets, check=_written(verb, inputs, bool(as_json), parts))

    def _pick(self, valid: Sequence[object], wrong: Sequence[object]) -> str:
        """Mostly a value that an option takes."""
        return str(self.random.choice(wrong if self.random.random() < 0.1 else valid))

    def _write_options(self, verb: str, folder: str, targets: list[str]) -> list[str]:
        pick = self._pick
        words: list[str] = []
        if verb != "classify":
            engine = pick(["torch"] * 9 + ["auto", "ctranslate2"], ["x"])
            if engine in ("auto", "ctranslate2") and "ctranslate2" in missing_extras():
                engine = "torch"
            words += ["--engine", engine, *self._maybe(0.05 if engine == "torch" else 0.3, "--int8")]
        if verb == "translate":
            words += self._maybe(0.3, "--beam", pick([1, 2, 3, 4, 5, 64], [0, "x"]))
            words += self._maybe(0.2, "--nbest", pick([1, 2, 3, 9], [0]))
            words += self._maybe(0.06, "--ensemble", pick([folder], ["nothing"]))
            words += self._maybe(0.06, "--unknown", pick(["keep", "replace"], ["x"]))
            words += self._maybe(0.03, "--dictionary", pick(["data"], ["nothing"]))
            if self.random.random() < 0.1:
                targets.append(f"parts{self.number}")
                words += ["--out", targets[0], "--format", pick(["text", "json", "parquet"], ["x"])]
                words += self._maybe(0.5, "--lines-per-part", "2")
        if verb == "generate":
            words += self._maybe(0.5, "--length", pick([1, 3, 8], [0]))
            words += self._maybe(0.4, "--temperature", pick([0, 0.5, 1, 2], [-1, "nan", "inf"]))
            words += self._maybe(0.2, "--top-k", pick([1, 5, 10**6], [0]))
            words += self._maybe(0.2, "--top-p", pick([0.5, 1], [0, 2, "inf"]))
            words += self._maybe(0.2, "--min-p", pick([0.1, 1, 0], [-1, "nan"]))
            words += self._maybe(0.3, "--seed", pick([0, 1, 2**40], [-1, 2**70]))
            words += self._maybe(0.1, "--stream")
        return words + self._maybe(0.1, "--device", pick(["cpu", "auto"], ["cuda", "x"]))

    def _resume(self, run: Trained, folder: str | None = None) -> Iterator[None]:
        """On with a run: as it was, longer, or with something changed."""
        changes = list(run.overrides)
        kind = self.random.random()
        steps: int | None = None
        if kind < 0.5:
            steps = run.steps + self.random.randint(0, 2)
            changes.append(f"train.steps={steps}")
        elif kind < 0.8:
            changes.append(as_override(*random_setting(self.random, {"task": {"kind": run.task}})))
        target = folder or run.folder
        recipe = run.recipe if self.random.random() < 0.8 else f"{target}/recipe.toml"
        sound = folder is None
        outcome = self.command(
            "train", recipe, *changes, "--out", target, "--resume", targets=[target],
            check=lambda _: oracle.run_problems(self.folder / target, None, None) if sound else [],
        )  # fmt: skip
        if outcome.code == 0 and steps is not None and folder is None:
            run.steps = steps
        yield

    def _again(self, run: Trained) -> Iterator[None]:
        """Another run into the same folder, which is refused."""
        outcome = self.command(
            "train", run.recipe, *run.overrides, "--out", run.folder, targets=[run.folder], exact=True
        )
        if outcome.code != 2:
            self.made[-1].problems.append(f"a run in place of another: exit {outcome.code}")
        yield

    def _damaged(self, run: Trained) -> Iterator[None]:
        """A copy of the run, damaged, and what can be done with it then."""
        copy = f"damaged{self.number}"
        shutil.copytree(self.folder / run.folder, self.folder / copy, symlinks=True)
        self._damage(self.folder / copy)
        self.runs.append(copy)
        for _ in range(self.random.randint(1, 3)):
            step = self.random.choice(["evaluate", "write", "write", "resume", "look", "export", "from"])
            if step == "evaluate":
                self.command("evaluate", copy, *self._maybe(0.5, "--json"), *self._maybe(0.3, "--data", "train"))
            elif step == "write":
                self._writing(VERBS.get(run.task, "translate"), run, copy, sound=False)
            elif step == "resume":
                yield from self._resume(run, copy)
            elif step == "look":
                self.command("look", copy, "the dog sleeps", "--out", "page.html", targets=["page.html"])
            elif step == "export":
                if "huggingface" not in missing_extras():
                    self.command("export", copy, "--to", "huggingface", "--out", f"{copy}-hf", targets=[f"{copy}-hf"])
            else:
                self._started(run, copy)
            yield

    def _damage(self, folder: Path) -> None:
        random = self.random
        files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        for path in random.sample(files, min(len(files), random.choice([1, 1, 1, 2, 4]))):
            data = path.read_bytes()
            kind = random.choice(["cut", "delete", "flip", "empty", "number", "folder", "json", "append"])
            if kind == "delete" or kind == "folder":
                path.unlink()
                if kind == "folder":
                    path.mkdir()
            elif kind == "json" and path.suffix in (".json", ".jsonl"):
                path.write_text(random.choice(["null", "[]", "{}", '{"a": 1}', "3", '"x"', "[1, 2]", '[["a"]]', "NaN"]))
            elif kind == "number":
                path.write_bytes(_other_number(random, data))
            elif kind == "append":
                path.write_bytes(data + random.choice([b"\n", b"x = 3\n", b"{}", b"\0"]))
            elif kind == "flip" and data:
                position = random.randrange(len(data))
                path.write_bytes(
                    data[:position] + bytes([data[position] ^ (1 << random.randrange(8))]) + data[position + 1 :]
                )
            else:
                path.write_bytes(data[: random.randrange(len(data) + 1)] if kind == "cut" else b"")
        if random.random() < 0.1:
            link = folder / "checkpoints" / random.choice(["best", "last"])
            link.unlink(missing_ok=True) if link.is_symlink() else None
            if random.random() < 0.5:
                link.symlink_to(random.choice(["step-77", "..", "/", link.name]))

    def _look(self, run: Trained) -> Iterator[None]:
        if run.corpus.content in ("images", "captions"):
            text = self._pictures()[0]
        else:
            text = self.random.choice([*run.corpus.texts(self.random), "", " ", "🙂", "the " * 300])
        pattern = self._maybe(0.2, "--pattern")
        out = (
            self.random.choice(["page.html", "page.html", "page.html", "new/page.html"])
            if not pattern
            else "pattern.png"
        )
        words = ["look", run.folder, text, "--out", out, *pattern]
        words += self._maybe(0.2, "--target", sentence(self.random))
        words += self._maybe(0.1, "--against", run.folder)
        words += self._maybe(0.15, "--which", self.random.choice(["last", "step-1", "step-9"]))
        if text.startswith("-"):
            text = f" {text}"
        check = (lambda _: [] if (self.folder / out).is_file() else ["no picture"]) if pattern else (
            lambda _: oracle.page_problems(self.folder / out, text)
        )  # fmt: skip
        self.command(*words, targets=[out], check=check)
        yield

    def _export(self, run: Trained) -> Iterator[None]:
        target = self.random.choices(["huggingface", "ctranslate2", "onnx", "x"], [70, 25, 1, 4])[0]
        words = [
            "export",
            run.folder,
            "--to",
            target,
            "--out",
            f"out{self.number}",
            "--examples",
            str(self.random.randint(1, 4)),
        ]
        words += [*self._maybe(0.4, "--json"), *self._maybe(0.1, "--int8"), *self._maybe(0.2, "--data", "train")]
        if target in missing_extras():
            return
        out = words[words.index("--out") + 1]
        outcome = self.command(
            *words, targets=[out], check=lambda outcome: self._exported(out, "--json" in words, outcome)
        )
        yield
        if outcome.code == 0 and target == "huggingface" and (self.folder / out / "config.json").is_file():
            copy = f"{out}-run"
            self.runs.append(copy)
            self.command("import", out, "--out", copy, targets=[copy], check=lambda _: _opens(self.folder / copy))
            yield
            if (self.folder / copy / "recipe.toml").is_file():
                self._writing(VERBS.get(run.task, "translate"), run, copy, sound=False)
                yield
                if VERBS.get(run.task) == "classify":
                    yield from self._same_classes(run, copy)

    def _same_classes(self, run: Trained, copy: str) -> Iterator[None]:
        """A classifier that was exported and imported gives the probabilities that it gave before."""
        images = run.corpus.content == "images"
        words = self._pictures()[:1] if images else []
        data = b"" if images else "".join(f"{text}\n" for text in ["the dog sees", "a cat", "tired"]).encode()
        before = self.command("classify", run.folder, "--json", *words, stdin=data, exact=True)
        yield
        after = self.command("classify", copy, "--json", *words, stdin=data, exact=True)
        pairs = zip(oracle.lines_of(before.stdout), oracle.lines_of(after.stdout), strict=False)
        for one, other in pairs if before.code == after.code == 0 else ():
            rows = [json.loads(line)["probabilities"] for line in (one, other)]
            if all(isinstance(row, dict) for row in rows):
                self.made[-1].problems += _differences(*rows, "before export and import")
        yield

    def _exported(self, out: str, as_json: bool, outcome: Outcome) -> list[str]:
        tree = oracle.strict_json((self.folder / out / "parity.json").read_bytes())
        problems = [] if isinstance(tree, dict) and tree else ["parity.json is empty"]
        return problems + (oracle.json_problems(outcome.stdout) if as_json else [])

    def _from(self, run: Trained) -> Iterator[None]:
        self._started(run, run.folder)
        yield

    def _started(self, run: Trained, start: str) -> None:
        """A training that begins with a run's weights: mostly of the same task, on the same data."""
        task = run.task if self.random.random() < 0.7 else self.random.choice(list(CONTENT))
        corpus = run.corpus if CONTENT[task] == run.corpus.content else self._corpus(task, "data")
        tree = make_recipe(self.random, task, corpus, self.random.choice([0, 0, 1]))
        for key in ("model", "tokenizer"):
            if self.random.random() < 0.85:
                tree.pop(key, None)
        file, out = f"data/from{self.number}.toml", f"from{self.number}"
        (self.folder / file).write_text(as_toml(tree), encoding="utf-8")
        extra = self._maybe(0.15, f"start.freeze_layers={self.random.randint(0, 2)}")
        extra += self._maybe(0.1, f"start.layer_rate={self.random.choice([0.5, 1, 0])}")
        extra += self._maybe(0.1, f'start.freeze=["{self.random.choice(["embedding", "head", "nothing", "*"])}"]')
        words = ["train", file, f"model.from={start}", *extra, "--out", out]
        self.runs.append(out)
        sound = start == run.folder
        recipe, steps = _expected(file, words[2:-2]) if sound else (None, None)
        outcome = self.command(
            *words,
            targets=[out],
            check=lambda _: oracle.run_problems(self.folder / out, recipe, steps) if sound else [],
        )
        if outcome.code == 2 and not (self.folder / out).exists():
            self.runs.remove(out)

    def _check_run(self, run: Trained) -> Iterator[None]:
        self.command("config", "--check", f"{run.folder}/recipe.toml", check=_resolved(False))
        yield
        as_json = self._maybe(0.5, "--json")
        self.command("data", "check", f"{run.folder}/recipe.toml", *as_json, check=_json_if(bool(as_json)))
        yield

    def _stranger(self, run: Trained) -> Iterator[None]:
        """The run on data that it was not made for."""
        task = self.random.choice(list(CONTENT))
        folder = f"other{self.number}"
        (self.folder / folder).mkdir()
        other = make_corpus(self.random, self.folder / folder, CONTENT[task], clean=self.random.random() < 0.5)
        words = ["--data", _inline(other.splits["train"].source, folder)]
        as_json = self._maybe(0.5, "--json")
        self.command("evaluate", run.folder, *words, *as_json, check=_scored(bool(as_json), None))
        yield

    # Comparisons

    def _compare(self) -> Iterator[None]:
        task = self.random.choice(list(CONTENT))
        corpus = self._corpus(task)
        files = [self._recipe(task, corpus, self.random.choice([0, 0, 0, 1]), name)[0] for name in ("one", "two")]
        if self.random.random() < 0.1:
            other = self.random.choice(list(CONTENT))
            files[1] = self._recipe(other, self._corpus(other), 0, "three")[0]
        if self.random.random() < 0.4:
            kind = self.random.choice(MODELS[task])
            variants = {"plain": [], "other": [as_override(("model",), small_model(self.random, kind))],
                        "Größe (2)": [as_override(("train", "schedule"), "constant")]}  # fmt: skip
            tree = {"base": "one.toml", "seeds": self.random.choice([1, 2, [3]]), "variants": variants}
            tree |= {"budget": self.random.choice(["steps=2", "tokens=60", "flops", "params", "x=3"])}
            (self.folder / "data" / "sweep.toml").write_text(as_toml(tree), encoding="utf-8")
            files = ["data/sweep.toml"]
        words = ["compare", *files, "--out", "compared", *self._maybe(0.7, "--seeds", str(self.random.choice([1, 2])))]
        words += self._maybe(
            0.5, "--budget", self.random.choice(["steps=2", "tokens=100", "flops", "params", "minutes=0.001", "x"])
        )
        words += [*self._maybe(0.1, "--tune"), *self._maybe(0.05, "--scaling")]
        as_json = self._maybe(0.4, "--json")
        for _ in range(self.random.choice([1, 1, 2])):
            self.command(
                *words, *as_json, targets=["compared"], check=lambda outcome: self._table(outcome, bool(as_json))
            )
            yield

    def _table(self, outcome: Outcome, as_json: bool) -> list[str]:
        tree = oracle.strict_json((self.folder / "compared" / "table.json").read_bytes())
        problems = [] if tree else ["table.json is empty"]
        return problems + (oracle.json_problems(outcome.stdout) if as_json else [])


def _inline(source: dict[str, Any], folder: str) -> str:
    """Data as `--data` takes it: a table, whose names of files start at the current folder."""
    names = {"file", "images", "labels"} if {"file", "images", "street"} & source.keys() else {"source", "target"}
    tree = {key: f"{folder}/{value}" if key in names else value for key, value in source.items()}
    return as_override((), tree).removeprefix("=")


def _differences(one: dict[str, Any], other: dict[str, Any], when: str) -> list[str]:
    """Numbers that two tables have in common and that differ."""
    names = [name for name in one if name in other and isinstance(one[name], float) and isinstance(other[name], float)]
    return [f"{name} is {other[name]}, and was {one[name]} {when}" for name in names
            if not isclose(one[name], other[name], rel_tol=1e-3, abs_tol=1e-4)]  # fmt: skip


def _expected(file: str, overrides: Sequence[str]) -> tuple[Any, int | None]:
    """What a recipe resolves to, None where rules decide some of it, and its steps where nothing else ends it."""
    from regard.errors import RegardError
    from regard.run import plan_recipe

    try:
        plan = plan_recipe(Path(file), overrides)
        recipe = plan.recipe.but(defaults="fixed")  # as a run keeps it
    except RegardError:
        return None, None
    except Exception:  # the command itself will say it
        return None, None
    train = recipe.train
    other = (train.epochs, train.minutes, train.flops, train.tokens, train.patience)
    steps = train.steps if all(limit is None for limit in other) and not train.skip_bad else None
    return None if plan.decisions else recipe, steps


def _json_if(as_json: bool) -> Callable[[Outcome], list[str]]:
    return lambda outcome: (
        oracle.json_problems(outcome.stdout) if as_json else [] if outcome.stdout else ["nothing was said"]
    )


def _resolved(as_json: bool) -> Callable[[Outcome], list[str]]:
    """A resolved recipe resolves to itself."""

    def check(outcome: Outcome) -> list[str]:
        import tomllib

        from regard.run import Recipe

        text = outcome.stdout.decode()
        tree = json.loads(text) if as_json else tomllib.loads(text)
        again = Recipe.from_tree(tree).tree()
        return [] if repr(again) == repr(tree) or again == tree else ["the resolved recipe resolves to another one"]

    return check


def _counted(truth: dict[str, int | None], as_json: bool) -> Callable[[Outcome], list[str]]:
    """The numbers of examples are those that were written; without validation data, part of training is held out."""
    held_out = "valid" not in truth

    def check(outcome: Outcome) -> list[str]:
        if not as_json:
            text, known = outcome.stdout.decode(), {**truth, **({"train": None} if held_out else {})}
            shown = [f"{name}: {count:,} " for name, count in known.items() if count is not None]
            return [f"no '{line}'" for line in shown if line not in text]
        counts = {name: split["examples"] for name, split in oracle.strict_json(outcome.stdout)["statistics"].items()}
        if held_out:
            counts["train"] += counts.get("valid", 0)
        return [f"{counts.get(name)} examples of {name} in place of {count}" for name, count in truth.items()
                if count is not None and counts.get(name) != count]  # fmt: skip

    return check


def _scored(as_json: bool, count: int | None) -> Callable[[Outcome], list[str]]:
    def check(outcome: Outcome) -> list[str]:
        if not as_json:
            return [] if outcome.stdout else ["no scores"]
        tree = oracle.strict_json(outcome.stdout)
        problems = oracle.number_problems(tree["metrics"], "metrics") if tree["metrics"] else ["no metrics"]
        if count is not None and tree["examples"] != count:
            problems.append(f"{tree['examples']} examples in place of {count}")
        return problems

    return check


def _written(verb: str, texts: list[str] | None, as_json: bool, parts: str | None) -> Callable[[Outcome], list[str]]:
    def check(outcome: Outcome) -> list[str]:
        if texts is None or "--out" in outcome.words:
            return [] if parts is None or any(Path(parts).glob("part-*")) or not texts else ["no parts"]
        if verb == "generate" and not as_json:  # what a model writes may have lines of its own
            return [] if outcome.stdout or not texts else ["nothing was written"]
        key = {"translate": "source", "generate": "prompt", "classify": "text"}[verb]
        return oracle.line_problems(outcome, texts, as_json=as_json, key=key)

    return check


def _opens(folder: Path) -> list[str]:
    from regard.run.trained import Run

    return [] if Run.open(folder, "cpu").step >= 0 else ["a negative step"]


def _other_number(random: Random, data: bytes) -> bytes:
    """The same bytes with another number in place of one of those that they have."""
    import re

    numbers = list(re.finditer(rb"\d+", data))
    if not numbers:
        return data + b"7"
    chosen = random.choice(numbers[:2000])
    new = random.choice([b"0", b"1", b"-1", b"99999999", b"3.5", b"null", b'"x"', b"1e999"])
    return data[: chosen.start()] + new + data[chosen.end() :]

"""Exported ONNX graphs at work: onnxruntime, numpy and tokenizers, no torch."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import RegardError
from regard.export.images import ImageForm
from regard.text.special_tokens import BOS, EOS, PAD, SEP
from regard.text.tokenizer import load_tokenizers

Ids = list[int]
Numbers = NDArray[np.float32]
Given = Mapping[str, NDArray[Any]]
"""What the first graph takes, by name."""
State = dict[str, NDArray[Any]]
"""All that a step takes beside tokens, by name; each tensor has a row for each text."""

FIELDS = {
    "translation": ("source", "target"),
    "summarisation": ("source", "target"),
    "image_description": ("target",),
    "image_classification": (),
}


class OnnxModel:
    """The graphs of a folder."""

    def __init__(self, folder: Path | str, threads: int = 1) -> None:
        import onnxruntime

        folder = Path(folder)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        self.settings: dict[str, Any] = json.loads((folder / "regard.json").read_text(encoding="utf-8"))
        self.graphs = {
            file.stem: onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
            for file in sorted(folder.glob("*.onnx"))
        }
        self.tokenizers = load_tokenizers(FIELDS.get(self.settings["task"], ("text",)), folder)

    @property
    def translates(self) -> bool:
        """Whether the model reads a text or an image and writes another text."""
        return "encoder" in self.graphs

    @property
    def prompted(self) -> bool:
        """Whether the text that it reads, and a separator, are the beginning of what it writes."""
        return self.settings["task"] == "summarisation" and not self.translates

    def write(self, inputs: Sequence[str], longest: int | None = None) -> list[str]:
        """The translation or summary of each text, what follows it, or the description of each image, given as a file.

        `longest`: most tokens to write; 256, or fewer where a summariser learnt to write fewer.
        """
        self._graph("step")
        longest = longest or (min(256, self.settings["longest"]) if "input_tokens" in self.settings else 256)
        writer = list(self.tokenizers.values())[-1]
        if self.translates:
            return writer.decode_batch(self.greedy(self._given(inputs), longest))
        prompts = [{"tokens": np.array([self._prompt(text)])} for text in inputs]
        return writer.decode_batch([self.greedy(prompt, longest)[0] for prompt in prompts])

    def classify(self, inputs: Sequence[str]) -> list[str]:
        """The likeliest label of each text or image; of a sentence to tag, the tags of its words, one space apart."""
        labels = self.settings["labels"]
        if self.settings["task"] != "tagging":
            return [labels[number] for number in self.scores(self._given(inputs)).argmax(-1)]
        cuts = [self.tokenizers["text"].encode_words(text.split()) for text in inputs]
        chosen = self.scores(padded([cut.tokens for cut in cuts])).argmax(-1)
        return [" ".join(labels[row[at]] for at in cut.starts) for cut, row in zip(cuts, chosen, strict=True)]

    def scores(self, given: Given) -> Numbers:
        """The scores of the labels, a row for each text or image, or for each token of it."""
        return np.asarray(self._graph("model").run(["logits"], dict(given))[0])

    def start(self, source: Given | None = None, rows: int = 1) -> State:
        """Reads the source, if the model has one; nothing written yet."""
        state: State = {}
        if source is not None:
            encoder, rows = self._graph("encoder"), len(next(iter(source.values())))
            names = [output.name for output in encoder.get_outputs()]
            state = dict(zip(names, map(np.asarray, encoder.run(None, dict(source))), strict=True))
            state |= {name: tensor for name, tensor in source.items() if name == "lengths"}
        sizes = {"rows": rows, "written": 0}
        for name, part in self.settings["state"].items():
            shape = [sizes[axis] if isinstance(axis, str) else axis for axis in part["axes"]]
            state[name] = np.zeros(shape, dtype=part["type"])
        return state

    def step(self, tokens: NDArray[np.int64], state: State) -> tuple[Numbers, State]:
        """The logits of what follows, and the state with these tokens in it."""
        graph = self._graph("step")
        given = {part.name: state[part.name] for part in graph.get_inputs() if part.name != "tokens"}
        names = [part.name.replace("now.", "past.", 1) for part in graph.get_outputs()]
        logits, *now = map(np.asarray, graph.run(None, {"tokens": tokens, **given}))
        return logits, {**state, **dict(zip(names[1:], now, strict=True))}

    def reorder(self, state: State, rows: NDArray[np.int64]) -> State:
        """The state whose row i continues row `rows[i]`."""
        return {name: tensor[rows] for name, tensor in state.items()}

    def greedy(self, given: Given, longest: int) -> list[Ids]:
        """Greedy search after sources, or after prompts of one length; without special tokens."""
        rows = len(next(iter(given.values())))
        tokens = np.full((rows, 1), BOS) if self.translates else given["tokens"]
        never = [PAD, BOS] if self.translates or self.prompted else [PAD]
        ends = self.translates or self.settings["documents"]
        state, written = self.start(given if self.translates else None, rows), [[] for _ in range(rows)]
        left = np.arange(rows)
        for _ in range(longest):
            logits, state = self.step(tokens.astype(np.int64), state)
            logits[:, -1, never] = -np.inf
            chosen = logits[:, -1].argmax(-1)
            going = chosen != EOS if ends else np.ones(len(left), dtype=bool)
            left, tokens = left[going], chosen[going][:, None]
            for row, token in zip(left, tokens[:, 0], strict=True):
                written[row].append(int(token))
            if not len(left):
                break
            if not going.all():
                state = self.reorder(state, np.flatnonzero(going))
        return written

    def _graph(self, name: str) -> Any:  # noqa: ANN401
        if name not in self.graphs:
            known = ", ".join(f"{graph}.onnx" for graph in self.graphs)
            raise RegardError(f"a model of {self.settings['task']} has {known} and cannot do what {name}.onnx does")
        return self.graphs[name]

    def _given(self, inputs: Sequence[str]) -> Given:
        """Texts as tokens that end, or images as numbers."""
        if "image" in self.settings:
            form = ImageForm(**self.settings["image"])
            return {"images": np.stack([form.numbers(file) for file in inputs])}
        return padded([[*self._read(text), EOS] for text in inputs])

    def _prompt(self, text: str) -> Ids:
        """What a model of one stack writes on from."""
        if self.prompted:
            return [*self._read(text), SEP]
        return [*([BOS] if self.settings["documents"] else []), *self._read(text)]

    def _read(self, text: str) -> Ids:
        """The tokens of a text; a summariser reads no more than it was taught to, one of them the token after these."""
        ids, most = next(iter(self.tokenizers.values())).encode(text), self.settings.get("input_tokens")
        return ids if most is None else ids[: most - 1]


def padded(rows: Sequence[Ids]) -> dict[str, NDArray[np.int64]]:
    """Rows of tokens in a grid, and how long each is."""
    longest = max(map(len, rows))
    tokens = np.array([[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=np.int64)
    return {"tokens": tokens, "lengths": np.array([len(row) for row in rows], dtype=np.int64)}

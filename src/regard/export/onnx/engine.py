"""Runs exported ONNX graphs: onnxruntime, numpy and tokenizers, no torch."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from regard.errors import RegardError
from regard.export.images import ImageForm
from regard.text.special_tokens import BOS, EOS, PAD, SEP
from regard.text.tokenizer import load_tokenizers

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Ids = list[int]
Array = NDArray[np.float32]
Inputs = Mapping[str, NDArray[np.float32] | NDArray[np.int64]]
"""Inputs of the first graph, by name."""
State = dict[str, NDArray[np.float32] | NDArray[np.int64]]
"""Inputs of a step beside tokens, by name; each tensor has a row for each text."""

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
        self.settings = json.loads((folder / "regard.json").read_text(encoding="utf-8"))
        self.graphs = {
            file.stem: onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
            for file in sorted(folder.glob("*.onnx"))
        }
        self.tokenizers = load_tokenizers(FIELDS.get(self.settings["task"], ("text",)), folder)

    @property
    def has_encoder(self) -> bool:
        """Whether the model encodes a text or an image and generates another text."""
        return "encoder" in self.graphs

    @property
    def prompted(self) -> bool:
        """Whether input and separator are the prompt of the output."""
        return self.settings["task"] == "summarisation" and not self.has_encoder

    def generate(self, inputs: Sequence[str], max_length: int | None = None) -> list[str]:
        """The translation, summary or continuation of each text, or the description of each image file.

        `max_length`: most tokens to generate; 256, or fewer where a summariser was trained on fewer.
        """
        self._graph("step")
        max_length = max_length or (min(256, self.settings["longest"]) if "input_tokens" in self.settings else 256)
        target = list(self.tokenizers.values())[-1]
        if self.has_encoder:
            return target.decode_batch(self.greedy(self._encode(inputs), max_length))
        prompts = [{"tokens": np.array([self._prompt(text)])} for text in inputs]
        return target.decode_batch([self.greedy(prompt, max_length)[0] for prompt in prompts])

    def classify(self, inputs: Sequence[str]) -> list[str]:
        """The likeliest label of each text or image; of a sentence to tag, the tags of its words, one space apart.

        Where a text may have several labels, those above their thresholds, with commas between.
        """
        labels = self.settings["labels"]
        if "thresholds" in self.settings:
            return [", ".join(row) for row in self.several_labels(inputs)]
        if self.settings["task"] != "tagging":
            return [labels[number] for number in self.scores(self._encode(inputs)).argmax(-1)]
        cuts = [self.tokenizers["text"].encode_words(text.split()) for text in inputs]
        chosen = self.scores(padded([cut.tokens for cut in cuts])).argmax(-1)
        return [" ".join(labels[row[at]] for at in cut.starts) for cut, row in zip(cuts, chosen, strict=True)]

    def several_labels(self, inputs: Sequence[str]) -> list[list[str]]:
        """The labels of each text above their thresholds, likeliest first."""
        thresholds = np.array([self.settings["thresholds"][label] for label in self.settings["labels"]], np.float32)
        probabilities = 1 / (1 + np.exp(-self.scores(self._encode(inputs))))
        chosen = [[(-p, label) for p, label, least in zip(row, self.settings["labels"], thresholds, strict=True)
                  if p >= least] for row in probabilities]  # fmt: skip
        return [[label for _, label in sorted(row)] for row in chosen]

    def scores(self, inputs: Inputs) -> Array:
        """The scores of the labels, a row for each text or image, or for each token of it."""
        return np.asarray(self._graph("model").run(["logits"], dict(inputs))[0])

    def start(self, source: Inputs | None = None, rows: int = 1) -> State:
        """The state before the first step, with the encoded source if the model has one."""
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

    def step(self, tokens: NDArray[np.int64], state: State) -> tuple[Array, State]:
        """The logits of what follows, and the state with these tokens in it."""
        graph = self._graph("step")
        inputs = {part.name: state[part.name] for part in graph.get_inputs() if part.name != "tokens"}
        names = [part.name.replace("now.", "past.", 1) for part in graph.get_outputs()]
        logits, *now = map(np.asarray, graph.run(None, {"tokens": tokens, **inputs}))
        return logits, {**state, **dict(zip(names[1:], now, strict=True))}

    def reorder(self, state: State, rows: NDArray[np.int64]) -> State:
        """The state whose row i continues row `rows[i]`."""
        return {name: tensor[rows] for name, tensor in state.items()}

    def greedy(self, inputs: Inputs, max_length: int) -> list[Ids]:
        """Greedy search after sources, or after prompts of one length; without special tokens."""
        rows = len(next(iter(inputs.values())))
        tokens = np.full((rows, 1), BOS) if self.has_encoder else inputs["tokens"]
        suppressed = [PAD, BOS] if self.has_encoder or self.prompted else [PAD]
        has_end = self.has_encoder or self.settings["documents"]
        state, outputs = self.start(inputs if self.has_encoder else None, rows), [[] for _ in range(rows)]
        unfinished = np.arange(rows)
        for _ in range(max_length):
            logits, state = self.step(tokens.astype(np.int64), state)
            logits[:, -1, suppressed] = -np.inf
            chosen = logits[:, -1].argmax(-1)
            active = chosen != EOS if has_end else np.ones(len(unfinished), dtype=bool)
            unfinished, tokens = unfinished[active], chosen[active][:, None]
            for row, token in zip(unfinished, tokens[:, 0], strict=True):
                outputs[row].append(int(token))
            if not len(unfinished):
                break
            if not active.all():
                state = self.reorder(state, np.flatnonzero(active))
        return outputs

    def _graph(self, name: str) -> "InferenceSession":
        if name not in self.graphs:
            files = ", ".join(f"{graph}.onnx" for graph in self.graphs)
            raise RegardError(f"a model of {self.settings['task']} has {files} and cannot do what {name}.onnx does")
        return self.graphs[name]

    def _encode(self, inputs: Sequence[str]) -> Inputs:
        """Texts as tokens with the end token, or images as pixels."""
        if "image" in self.settings:
            form = ImageForm(**self.settings["image"])
            return {"images": np.stack([form.pixels(file) for file in inputs])}
        return padded([[*self._tokens(text), EOS] for text in inputs])

    def _prompt(self, text: str) -> Ids:
        if self.prompted:
            return [*self._tokens(text), SEP]
        return [*([BOS] if self.settings["documents"] else []), *self._tokens(text)]

    def _tokens(self, text: str) -> Ids:
        """The tokens of a text; of a summariser's, the first, so that one after them fits."""
        ids, most = next(iter(self.tokenizers.values())).encode(text), self.settings.get("input_tokens")
        return ids if most is None else ids[: most - 1]


def padded(rows: Sequence[Ids]) -> dict[str, NDArray[np.int64]]:
    """Tokens padded on the right, and the length of each row."""
    longest = max(map(len, rows))
    tokens = np.array([[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=np.int64)
    return {"tokens": tokens, "lengths": np.array([len(row) for row in rows], dtype=np.int64)}

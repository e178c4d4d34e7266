"""What a graph is before it is traced: a module, and by name the tensors that it takes and gives, with their axes."""

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

SIZES = {"rows": 2, "time": 3, "written": 4, "source": 5, "columns": 12}
"""Axes that are as long as they need to be, and their length while a graph is traced."""
MOST_ROWS = 4096


@dataclass(frozen=True)
class Part:
    """A tensor that a graph takes or gives."""

    name: str
    axes: tuple[int | str, ...]
    """A number where an axis is always so long, a name of `SIZES` where it is not."""
    whole: bool = False
    """Whether it holds whole numbers."""

    def example(self) -> Tensor:
        """A tensor to trace with."""
        sizes = [SIZES[axis] if isinstance(axis, str) else axis for axis in self.axes]
        return torch.ones(sizes, dtype=torch.long) if self.whole else torch.zeros(sizes)

    def dynamic(self, dims: Mapping[str, Any]) -> dict[int, Any]:
        """Which of its axes are symbols."""
        return {number: dims[axis] for number, axis in enumerate(self.axes) if isinstance(axis, str)}

    def tree(self) -> dict[str, Any]:
        """For regard.json."""
        return {"axes": list(self.axes), "type": "int64" if self.whole else "float32"}


TOKENS = Part("tokens", ("rows", "time"), whole=True)
SOURCE = Part("tokens", ("rows", "source"), whole=True)
LENGTHS = Part("lengths", ("rows",), whole=True)


class Graph(nn.Module):
    """A module whose forward takes `given`, in that order, and gives one tensor for each of `gives`."""

    file: str
    given: Mapping[str, Part | Sequence[Part]]
    gives: Sequence[str]

    def write(self, folder: Path, room: int) -> None:
        """Traces it into a file, its weights inside it."""
        dims = {axis: Dim(axis, min=0 if axis == "written" else 1, max=limit) for axis, limit in _limits(room).items()}
        parts = [part for one in self.given.values() for part in ([one] if isinstance(one, Part) else one)]
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # the exporter warns about itself
            # captured here, as torch.onnx itself would fix a size that it cannot keep open, without a word
            captured = torch.export.export(
                self.eval(),
                (),
                {name: _each(one, Part.example) for name, one in self.given.items()},
                dynamic_shapes={name: _each(one, lambda part: part.dynamic(dims)) for name, one in self.given.items()},
                strict=False,
                prefer_deferred_runtime_asserts_over_guards=True,
            )
            torch.onnx.export(
                captured,
                f=str(folder / self.file),
                input_names=[part.name for part in parts],
                output_names=list(self.gives),
                dynamo=True,
                external_data=False,
                verbose=False,
            )


def _limits(room: int) -> dict[str, int]:
    return {**dict.fromkeys(SIZES, room), "rows": MOST_ROWS, "columns": MOST_ROWS * room}


def _each(one: Part | Sequence[Part], do: Any) -> Any:  # noqa: ANN401
    return do(one) if isinstance(one, Part) else [do(part) for part in one]


class Step(Graph):
    """One step of a decoder: tokens, what was written before and what is heard → logits, what is written now."""

    file = "step.onnx"

    def __init__(self, past: Sequence[Part], heard: Sequence[Part] = ()) -> None:
        super().__init__()
        self.past = list(past)
        self.given = {"tokens": TOKENS, "past": self.past, **({"heard": list(heard)} if heard else {})}
        self.gives = ["logits", *(part.name.replace("past.", "now.", 1) for part in past)]


class Read(Graph):
    """An encoder: a source → what the decoder listens to, and what it begins with."""

    file = "encoder.onnx"

    def __init__(self, source: Mapping[str, Part], gives: Sequence[Part]) -> None:
        super().__init__()
        self.given, self.gives = source, [part.name for part in gives]


class Label(Graph):
    """A whole text or image → scores of labels or tokens, for all of it or at each place."""

    file = "model.onnx"
    gives = ("logits",)

    def __init__(self, source: Mapping[str, Part]) -> None:
        super().__init__()
        self.given = source

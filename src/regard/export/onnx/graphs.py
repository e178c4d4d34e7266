"""A graph before it is traced: a module, and its named input and output tensors with their axes."""

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
"""Symbolic axes, and their size while a graph is traced."""
MOST_ROWS = 4096


@dataclass(frozen=True)
class GraphTensor:
    """An input or output of a graph."""

    name: str
    axes: tuple[int | str, ...]
    """The size of an axis, or its name in `SIZES` where it is symbolic."""
    integer: bool = False
    """Whether it holds int64."""

    def example(self) -> Tensor:
        """A tensor to trace with."""
        sizes = [SIZES[axis] if isinstance(axis, str) else axis for axis in self.axes]
        return torch.ones(sizes, dtype=torch.long) if self.integer else torch.zeros(sizes)

    def dynamic(self, dims: Mapping[str, Any]) -> dict[int, Any]:
        """Its symbolic axes."""
        return {number: dims[axis] for number, axis in enumerate(self.axes) if isinstance(axis, str)}

    def tree(self) -> dict[str, Any]:
        """For regard.json."""
        return {"axes": list(self.axes), "type": "int64" if self.integer else "float32"}


TOKENS = GraphTensor("tokens", ("rows", "time"), integer=True)
SOURCE = GraphTensor("tokens", ("rows", "source"), integer=True)
LENGTHS = GraphTensor("lengths", ("rows",), integer=True)


class Graph(nn.Module):
    """A module whose forward takes `inputs`, in that order, and returns one tensor for each of `outputs`."""

    file: str
    inputs: Mapping[str, GraphTensor | Sequence[GraphTensor]]
    outputs: Sequence[str]

    def write(self, folder: Path, max_positions: int) -> None:
        """Traces the module into a file that holds its weights, too."""
        dims = {
            axis: Dim(axis, min=0 if axis == "written" else 1, max=limit)
            for axis, limit in _limits(max_positions).items()
        }
        parts = [part for one in self.inputs.values() for part in ([one] if isinstance(one, GraphTensor) else one)]
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # the exporter warns about itself
            # captured here, since torch.onnx itself would silently fix a size that it cannot keep symbolic
            captured = torch.export.export(
                self.eval(),
                (),
                {name: _mapped(one, GraphTensor.example) for name, one in self.inputs.items()},
                dynamic_shapes={
                    name: _mapped(one, lambda part: part.dynamic(dims)) for name, one in self.inputs.items()
                },
                strict=False,
                prefer_deferred_runtime_asserts_over_guards=True,
            )
            torch.onnx.export(
                captured,
                f=str(folder / self.file),
                input_names=[part.name for part in parts],
                output_names=list(self.outputs),
                dynamo=True,
                external_data=False,
                verbose=False,
            )


def _limits(max_positions: int) -> dict[str, int]:
    return {**dict.fromkeys(SIZES, max_positions), "rows": MOST_ROWS, "columns": MOST_ROWS * max_positions}


def _mapped(tensors: GraphTensor | Sequence[GraphTensor], function: Any) -> Any:  # noqa: ANN401
    return function(tensors) if isinstance(tensors, GraphTensor) else [function(one) for one in tensors]


class StepGraph(Graph):
    """One decoding step: tokens, state (`past`), keys and values of the source → logits, new state."""

    file = "step.onnx"

    def __init__(self, past: Sequence[GraphTensor], source_kv: Sequence[GraphTensor] = ()) -> None:
        super().__init__()
        self.past = list(past)
        self.inputs = {"tokens": TOKENS, "past": self.past, **({"source_kv": list(source_kv)} if source_kv else {})}
        self.outputs = ["logits", *(part.name.replace("past.", "now.", 1) for part in past)]


class EncoderGraph(Graph):
    """An encoder: source → what the decoder attends to, and the state it begins with."""

    file = "encoder.onnx"

    def __init__(self, source: Mapping[str, GraphTensor], outputs: Sequence[GraphTensor]) -> None:
        super().__init__()
        self.inputs, self.outputs = source, [part.name for part in outputs]


class ScoreGraph(Graph):
    """A whole text or image → scores of labels, or of tokens at each position."""

    file = "model.onnx"
    outputs = ("logits",)

    def __init__(self, source: Mapping[str, GraphTensor]) -> None:
        super().__init__()
        self.inputs = source

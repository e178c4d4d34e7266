"""`trace`: one input of one model, with everything the page shows, as a tree for JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import Field
from torch import nn

from regard.config import Config
from regard.decode import BeamConfig, GreedyConfig
from regard.decode.search import AnySearch, search_with
from regard.errors import ConfigError
from regard.look.coreference import coreference_tree
from regard.look.encoding import pack_weights
from regard.look.generation import answer_tree, beam_tree, steps_tree, write, writes
from regard.look.groups import by_group, evenly, group_trees
from regard.look.image_input import reader_for
from regard.look.model_input import Reader, Reading
from regard.look.paths import paths_tree
from regard.look.positions import positions_tree
from regard.look.replay import Part, attentions, replay, without_heads
from regard.look.shuffle import shuffles_tree
from regard.tasks import Task
from regard.tasks.images import ImageTask

VERSION = 1
DRAWN_BEAM = 4
"""Size of the beam whose tree is drawn where the search is no beam."""
CHECKPOINT_BYTES = 900_000
"""How much of a page the weights of earlier checkpoints may take."""


class TraceConfig(Config):
    """What a trace holds beside the attention itself."""

    beam: int | None = Field(None, ge=1, le=16)
    """Size of the beam that writes and whose tree is drawn; when left out, the run's own search writes."""
    length: int = Field(64, ge=1, le=512)
    """Most tokens to write."""
    top: int = Field(12, ge=1, le=100)
    """Likely tokens to keep at each step."""
    off: tuple[tuple[str, int], ...] = ()
    """Heads to switch off, each by its module's name and its number."""
    shuffles: int = Field(3, ge=0, le=8)
    """How many times to shuffle the words."""
    coreference: bool = True
    """Try the lectures' two sentences on a translation model."""
    paths: bool = True
    """Measure how far information travels."""


@dataclass(frozen=True)
class Snapshot:
    """A model as it was at an earlier step of its training."""

    step: int
    model: nn.Module


def trace(
    model: nn.Module,
    task: Task,
    text: str,
    target: str | None = None,
    *,
    name: str = "",
    step: int | None = None,
    documents: bool = False,
    snapshots: Sequence[Snapshot] = (),
    search: AnySearch | None = None,
    **options: Any,  # noqa: ANN401
) -> dict[str, Any]:
    """Everything the page shows of one input.

    `target` forces what is written; without it the model writes itself, by `search`. `documents` says that a language
    model knows where texts begin. Further options are those of `TraceConfig`.
    """
    asked = TraceConfig.from_tree(options)
    reader = reader_for(model, task, text, documents)
    search = search_of(reader, search, asked)
    with without_heads(model, asked.off):
        reading = read(reader, text, target, search)
        scores, parts = replay(model, reading.arguments)
        tree = {
            "version": VERSION,
            "about": about(model, task, name, step),
            "text": text if isinstance(text, str) else "",
            "target": target,
            "output": output_of(reader, reading),
            "shape": reading.shape,
            "sentences": {
                side: None if sentence is None else sentence.tree()
                for side, sentence in (("source", reading.source), ("target", reading.target))
            },
            "given": reading.given,
            "groups": group_trees(parts, reading),
            "options": asked.model_dump(),
            "generation": generation_tree(reader, reading, scores, asked, search),
            "positions": positions_tree(model, parts),
            "shuffles": shuffles_tree(reader, reading, asked.shuffles, search) if reader.reads_text else [],
            "paths": paths_tree(model, reading, parts) if asked.paths and reader.reads_text else None,
            "coreference": coreference_tree(reader, search)
            if asked.coreference and reader.shape == "pair" and reader.reads_text
            else None,
            "snapshots": snapshots_tree(snapshots, reading, parts),
            **reader.extras(),
        }
    return tree


def search_of(reader: Reader, usual: AnySearch | None, asked: TraceConfig) -> AnySearch:
    """The best of what a run's own search finds, or a beam where one is asked for; no longer than the page shows."""
    search = usual or (BeamConfig(size=DRAWN_BEAM) if reader.shape == "pair" else GreedyConfig())
    search = search_with(search, {"size": asked.beam, "n_best": 1})
    longest = min(search.max_length, asked.length)
    return search.but(max_length=longest, min_length=min(search.min_length, longest - 1))


def read(reader: Reader, text: str, target: str | None, search: AnySearch) -> Reading:
    """The text with what is forced, or else written, for it."""
    ids = reader.ids(text)
    if reader.shape == "label":
        if target is not None:
            raise ConfigError("target", "this model reads and gives a label, it writes nothing; leave the target out")
        return reader.label(ids)
    written = reader.target.encode(target) if target is not None else write(reader, ids, search)
    return reader.pair(ids, written) if reader.shape == "pair" else reader.text(ids, written)


def output_of(reader: Reader, reading: Reading) -> str:
    """What was written, as text."""
    if reading.target is None:
        return ""
    return reader.target.decode(reading.target.ids[reading.given :])


def about(model: nn.Module, task: Task, name: str, step: int | None) -> dict[str, Any]:
    """What kind of model this is."""
    config: Any = getattr(model, "config", None)
    return {
        "run": name,
        "step": step,
        "task": type(task).__name__,
        "kind": str(getattr(config, "kind", type(model).__name__)),
        "width": getattr(config, "width", None),
        "depth": getattr(config, "depth", None),
        "heads": getattr(config, "heads", None),
        "attention": str(getattr(getattr(config, "attention", None), "kind", "")),
        "position": str(getattr(getattr(config, "position", None), "kind", "")),
        "parameters": sum(part.numel() for part in model.parameters()),
        "attends": bool(attentions(model)),
    }


def blank_tree(model: nn.Module, task: Task, told: str, *, name: str = "", step: int | None = None) -> dict[str, Any]:
    """A page about no input yet: what the model is, and a sentence that says why there is nothing to see."""
    reader = Reader(model, task) if isinstance(task, ImageTask) else reader_for(model, task, "", documents=False)
    return {
        "version": VERSION,
        "about": about(model, task, name, step),
        "blank": told,
        "text": "", "target": None, "output": "", "shape": reader.shape, "given": 0,
        "sentences": {"source": None, "target": None},
        "groups": [], "options": {}, "generation": {}, "snapshots": [],
    }  # fmt: skip


def generation_tree(
    reader: Reader, reading: Reading, scores: torch.Tensor, asked: TraceConfig, search: AnySearch
) -> dict[str, Any]:
    """Steps and beam of a model that writes, labels of one that classifies."""
    if reading.shape == "label":
        assert reading.source is not None
        return {"classes": answer_tree(reader, scores, reading.source)}
    tree: dict[str, Any] = {"steps": steps_tree(scores, reading, reader.target, asked.top)}
    if writes(reader.model):
        first = reading.source.ids if reading.source is not None else reading.target.ids[: reading.given]  # type: ignore[union-attr]
        beam = search if isinstance(search, BeamConfig) else BeamConfig(size=DRAWN_BEAM, max_length=search.max_length)
        tree["beam"] = beam_tree(reader, first, beam)
    return tree


def snapshots_tree(snapshots: Sequence[Snapshot], reading: Reading, parts: Sequence[Part]) -> list[dict[str, Any]]:
    """The same input seen by earlier checkpoints: all heads, for as many checkpoints as there is room."""
    each = sum(part.weights.numel() for part in parts)
    most = max(2, CHECKPOINT_BYTES // max(1, each))
    trees = []
    for place in evenly(len(snapshots), most):
        _, seen = replay(snapshots[place].model, reading.arguments)
        groups = by_group(seen, reading)
        weights = {name: [pack_weights(part.weights) for part in layers] for name, layers in groups.items()}
        trees.append({"step": snapshots[place].step, "weights": weights})
    return trees


def patterns(
    model: nn.Module,
    task: Task,
    text: str,
    target: str | None = None,
    documents: bool = False,
    search: AnySearch | None = None,
) -> list[tuple[str, list[str], list[str], list[list[bool]]]]:
    """For each group its name, the tokens on both sides, and who may attend to whom in any head of the first layer."""
    reader = reader_for(model, task, text, documents)
    reading = read(reader, text, target, search_of(reader, search, TraceConfig()))
    found = []
    for name, layers in by_group(replay(model, reading.arguments)[1], reading).items():
        rows = reading.source if name == "encoder" else reading.target
        columns = reading.target if name == "decoder" else reading.source
        allowed = layers[0].allowed.any(0).tolist()
        keys = columns.tokens if columns else []
        found.append((name, rows.tokens if rows else [], keys, allowed))
    return found

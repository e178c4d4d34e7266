"""`trace`: the payload of one input of one model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from regard.decode import BeamConfig, GreedyConfig
from regard.decode.search import AnySearch, search_with
from regard.errors import ConfigError
from regard.look.coreference import trace_coreference
from regard.look.encoding import pack_weights
from regard.look.generation import generate, generates, trace_beam, trace_labels, trace_steps
from regard.look.groups import by_group, evenly, trace_groups
from regard.look.model_input import InputBuilder, ModelInput, input_builder
from regard.look.paths import trace_paths
from regard.look.payload import VERSION, About, CheckpointWeights, Generation, GroupName, Payload, TraceConfig
from regard.look.positions import trace_positions, trace_shuffles
from regard.look.replay import RecordedAttention, attentions, replay, without_heads
from regard.tasks import Task
from regard.tasks.images import ImageTask

DRAWN_BEAM = 4
"""Size of the beam whose tree is drawn where the search is another."""
CHECKPOINT_BYTES = 900_000
"""Bytes of the weights of earlier checkpoints on a page."""


@dataclass(frozen=True)
class Snapshot:
    """A model at an earlier step of its training."""

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
    """The payload as plain values for JSON.

    `target` is a forced target; without it the model generates by `search`. `documents` says that a language model was
    trained with BOS and EOS. Further options are those of `TraceConfig`.
    """
    config = TraceConfig.from_tree(options)
    builder = input_builder(model, task, text, documents)
    search = search_for(builder, search, config)
    with without_heads(model, config.off):
        inputs = model_input(builder, text, target, search)
        logits, recorded = replay(model, inputs.arguments)
        sides = {"source": inputs.source, "target": inputs.target}
        translates = builder.reads_text and builder.shape == "pair"
        payload = Payload(
            version=VERSION,
            about=about(model, task, name, step),
            text=text if isinstance(text, str) else "",
            target=target,
            output="" if inputs.target is None else builder.target.decode(inputs.target.ids[inputs.prompt_length :]),
            shape=inputs.shape,
            sentences={side: sentence and sentence.payload() for side, sentence in sides.items()},  # type: ignore[misc]
            prompt_length=inputs.prompt_length,
            groups=trace_groups(recorded, inputs),
            options=config,
            generation=trace_generation(builder, inputs, logits, config, search),
            positions=trace_positions(model, recorded),
            shuffles=trace_shuffles(builder, inputs, config.shuffles, search) if builder.reads_text else [],
            paths=trace_paths(model, inputs, recorded) if config.paths and builder.reads_text else None,
            coreference=trace_coreference(builder, search) if config.coreference and translates else None,
            snapshots=trace_snapshots(snapshots, inputs, recorded),
        )
        if image := builder.image():
            payload.image = image
    return payload.model_dump(mode="json")


def blank_tree(model: nn.Module, task: Task, reason: str, *, name: str = "", step: int | None = None) -> dict[str, Any]:
    """A payload without an input: the model, and why there is nothing to see."""
    is_image = isinstance(task, ImageTask)
    builder = InputBuilder(model, task) if is_image else input_builder(model, task, "", documents=False)
    return Payload(
        version=VERSION,
        about=about(model, task, name, step),
        blank=reason,
        text="",
        target=None,
        output="",
        shape=builder.shape,
        prompt_length=0,
        sentences={"source": None, "target": None},
        groups=[],
        options=TraceConfig(),
        generation=Generation(),
        positions=None,
        shuffles=[],
        paths=None,
        coreference=None,
        snapshots=[],
    ).model_dump(mode="json")


def search_for(builder: InputBuilder, search: AnySearch | None, config: TraceConfig) -> AnySearch:
    """The run's own search for one output, or a beam where one is requested; no longer than the page shows."""
    usual = search or (BeamConfig(size=DRAWN_BEAM) if builder.shape == "pair" else GreedyConfig())
    search = search_with(usual, {"size": config.beam, "n_best": 1})
    longest = min(search.max_length, config.length)
    return search.but(max_length=longest, min_length=min(search.min_length, longest - 1))


def model_input(builder: InputBuilder, text: str, target: str | None, search: AnySearch) -> ModelInput:
    """The text with its forced or generated target."""
    ids = builder.ids(text)
    if builder.shape == "label":
        if target is not None:
            raise ConfigError("target", "this model classifies and generates nothing; leave the target out")
        return builder.label(ids)
    target_ids = builder.target.encode(target) if target is not None else generate(builder, ids, search)
    return builder.pair(ids, target_ids) if builder.shape == "pair" else builder.text(ids, target_ids)


def about(model: nn.Module, task: Task, name: str, step: int | None) -> About:
    config: Any = getattr(model, "config", None)
    return About(
        run=name,
        step=step,
        task=type(task).__name__,
        kind=str(getattr(config, "kind", type(model).__name__)),
        width=getattr(config, "width", None),
        depth=getattr(config, "depth", None),
        heads=getattr(config, "heads", None),
        attention=str(getattr(getattr(config, "attention", None), "kind", "")),
        position=str(getattr(getattr(config, "position", None), "kind", "")),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        attends=bool(attentions(model)),
    )


def trace_generation(
    builder: InputBuilder, inputs: ModelInput, logits: torch.Tensor, config: TraceConfig, search: AnySearch
) -> Generation:
    """Steps and beam of a model that generates, labels of one that classifies."""
    if inputs.shape == "label":
        assert inputs.source is not None
        return Generation(classes=trace_labels(builder, logits, inputs.source))
    generation = Generation(steps=trace_steps(logits, inputs, builder.target, config.top))
    if generates(builder.model):
        prompt = inputs.source.ids if inputs.source is not None else inputs.target.ids[: inputs.prompt_length]  # type: ignore[union-attr]
        beam = search if isinstance(search, BeamConfig) else BeamConfig(size=DRAWN_BEAM, max_length=search.max_length)
        generation.beam = trace_beam(builder, prompt, beam)
    return generation


def trace_snapshots(
    snapshots: Sequence[Snapshot], inputs: ModelInput, recorded: Sequence[RecordedAttention]
) -> list[CheckpointWeights]:
    """All heads of earlier checkpoints on the same input, of as many checkpoints as the page allows."""
    size = sum(attention.weights.numel() for attention in recorded)
    chosen = evenly(len(snapshots), max(2, CHECKPOINT_BYTES // max(1, size)))
    rows = []
    for snapshot in (snapshots[index] for index in chosen):
        groups = by_group(replay(snapshot.model, inputs.arguments)[1], inputs)
        weights: dict[GroupName, list[str]] = {
            name: [pack_weights(layer.weights) for layer in layers] for name, layers in groups.items()
        }
        rows.append(CheckpointWeights(step=snapshot.step, weights=weights))
    return rows

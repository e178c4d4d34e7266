"""`trace`: the payload of one input of one model."""

from collections.abc import Sequence

import torch

from regard.decode import BeamConfig
from regard.decode.search import AnySearch, search_with
from regard.errors import ConfigError
from regard.look.coreference import trace_coreference
from regard.look.generation import generate, generates, trace_beam, trace_labels, trace_steps
from regard.look.groups import by_group, evenly, trace_groups
from regard.look.model_input import InputBuilder, ModelInput, input_builder
from regard.look.paths import trace_paths
from regard.look.payload import (
    VERSION,
    About,
    CheckpointWeights,
    Generation,
    GroupName,
    Payload,
    TraceConfig,
    pack_weights,
)
from regard.look.positions import trace_positions, trace_shuffles
from regard.look.replay import RecordedAttention, attentions, replay, without_heads
from regard.tasks.generation import AnyInput
from regard.tasks.images import ImageTask
from regard.tasks.trained import Trained

DRAWN_BEAM = 4
"""Size of the beam whose tree is drawn where the search is another."""
CHECKPOINT_BYTES = 900_000
"""Bytes of the weights of earlier checkpoints on a page."""


def trace(
    trained: Trained, text: AnyInput, target: str | None = None, *, snapshots: Sequence[Trained] = (), **options: object
) -> dict[str, object]:
    """The payload as plain values for JSON.

    `target` is a forced target; without it the model generates. `snapshots` is the model at earlier steps of its
    training. Further options are those of `TraceConfig`.
    """
    config, model = TraceConfig.from_tree(options), trained.model
    builder = input_builder(trained, text)
    search = search_for(trained, config)
    with without_heads(model, config.off):
        inputs = model_input(builder, text, target, search)
        logits, recorded = replay(model, inputs.arguments)
        translates = builder.reads_text and builder.shape == "pair"
        payload = Payload(
            version=VERSION,
            about=about(trained),
            text=text if isinstance(text, str) else "",
            target=target,
            output="" if inputs.target is None else builder.target.decode(inputs.target.ids[inputs.prompt_length :]),
            shape=inputs.shape,
            sentences={
                "source": inputs.source and inputs.source.payload(),
                "target": inputs.target and inputs.target.payload(),
            },
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


def blank_tree(trained: Trained, reason: str) -> dict[str, object]:
    """A payload without an input: the model, and why there is nothing to see."""
    builder = InputBuilder(trained) if isinstance(trained.task, ImageTask) else input_builder(trained, "")
    return Payload(
        version=VERSION, about=about(trained), blank=reason, text="", target=None, output="", shape=builder.shape,
        prompt_length=0, sentences={"source": None, "target": None}, groups=[], options=TraceConfig(),
        generation=Generation(), positions=None, shuffles=[], paths=None, coreference=None, snapshots=[],
    ).model_dump(mode="json")  # fmt: skip


def search_for(trained: Trained, config: TraceConfig) -> AnySearch:
    """The run's own search for one output, or a beam where one is requested; no longer than the page shows."""
    search = search_with(trained.recipe.usual_search, {"size": config.beam, "n_best": 1})
    longest = min(search.max_length, config.length)
    return search.but(max_length=longest, min_length=min(search.min_length, longest - 1))


def model_input(builder: InputBuilder, text: AnyInput, target: str | None, search: AnySearch) -> ModelInput:
    """The text with its forced or generated target."""
    ids = builder.ids(text)
    if builder.shape == "label":
        if target is not None:
            raise ConfigError("target", "this model classifies and generates nothing; leave the target out")
        return builder.label(ids)
    target_ids = builder.target.encode(target) if target is not None else generate(builder, ids, search)
    return builder.pair(ids, target_ids) if builder.shape == "pair" else builder.text(ids, target_ids)


def about(trained: Trained) -> About:
    config, model = trained.recipe.model, trained.model
    return About(
        run=trained.name,
        step=trained.step,
        task=type(trained.task).__name__,
        kind=config.kind,
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
        return Generation(classes=trace_labels(builder, logits, inputs.read))
    generation = Generation(steps=trace_steps(logits, inputs, builder.target, config.top))
    if generates(builder.model):
        beam = search if isinstance(search, BeamConfig) else BeamConfig(size=DRAWN_BEAM, max_length=search.max_length)
        generation.beam = trace_beam(builder, inputs.prompt, beam)
    return generation


def trace_snapshots(
    snapshots: Sequence[Trained], inputs: ModelInput, recorded: Sequence[RecordedAttention]
) -> list[CheckpointWeights]:
    """All heads of earlier checkpoints on the same input, of as many checkpoints as the page allows."""
    size = sum(attention.weights.numel() for attention in recorded)
    chosen = evenly(len(snapshots), max(2, CHECKPOINT_BYTES // max(1, size)))
    rows: list[CheckpointWeights] = []
    for snapshot in (snapshots[index] for index in chosen):
        groups = by_group(replay(snapshot.model, inputs.arguments)[1], inputs)
        weights: dict[GroupName, list[str]] = {
            name: [pack_weights(layer.weights) for layer in layers] for name, layers in groups.items()
        }
        rows.append(CheckpointWeights(step=snapshot.step, weights=weights))
    return rows

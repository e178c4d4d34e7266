"""What must hold for the graphs of every kind of model."""

from pathlib import Path
from typing import Any

import numpy as np

from regard.export import parity
from regard.export.export import export_model
from regard.export.exported_model import ExportedModel, HeldOut
from regard.export.onnx.engine import OnnxModel, padded

SOURCES, TARGETS = [[30, 31, 32, 33, 3], [33, 3], [40, 41, 3]], [[2, 40, 41, 42], [2, 50, 51, 52], [2, 60, 61, 62]]


def checked(exported: ExportedModel, held_out: HeldOut, folder: Path) -> OnnxModel:
    """The graphs agree with torch on held-out examples, and where they write, step by step as well as at once."""
    found = export_model(exported, held_out, "onnx", folder)
    assert found.largest_difference <= parity.TOLERANCE
    assert found.identical == 1.0
    model = OnnxModel(folder)
    if exported.generates:
        source = first_rows(exported, held_out) if exported.has_source else None
        step_by_step_is_all_at_once(model, source)
        rows_are_moved_with_their_state(model, source)
    return model


def first_rows(exported: ExportedModel, held_out: HeldOut) -> dict[str, Any]:
    if exported.images is None:
        return dict(padded(SOURCES))
    return {"images": np.stack([exported.images.pixels(one) for one in held_out.pictures[:3]])}


def step_by_step_is_all_at_once(model: OnnxModel, source: dict[str, Any] | None) -> None:
    tokens = np.array(TARGETS)
    whole, _ = model.step(tokens, model.start(source, 3))
    state, parts = model.start(source, 3), []
    for column in range(tokens.shape[1]):
        logits, state = model.step(tokens[:, column : column + 1], state)
        parts.append(logits)
    np.testing.assert_allclose(np.concatenate(parts, 1), whole, atol=1e-5)


def rows_are_moved_with_their_state(model: OnnxModel, source: dict[str, Any] | None) -> None:
    tokens, rows = np.array(TARGETS), np.array([2, 0, 0, 1])
    _, state = model.step(tokens[:, :2], model.start(source, 3))
    stayed, _ = model.step(tokens[:, 2:], state)
    moved, _ = model.step(tokens[rows, 2:], model.reorder(state, rows))
    np.testing.assert_allclose(moved, stayed[rows], atol=1e-5)

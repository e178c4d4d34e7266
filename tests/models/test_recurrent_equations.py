"""The recurrent systems written out by hand, one token at a time, against the models with the same weights."""

import pytest
import torch
from torch import Tensor

from regard.models.recurrent import DeepAttConfig, GnmtConfig, RecurrentDecoderConfig, Seq2SeqConfig
from regard.nn.layout import Sequences
from regard.nn.recurrent import RecurrentLayer

State = tuple[Tensor, Tensor]
SOURCE, TARGET = [4, 7, 2, 9, 5], [1, 8, 3, 6]
SMALL = {"width": 8, "dropout": 0.0}


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def next_state(layer: RecurrentLayer, x: Tensor, state: State, suffix: str = "") -> State:
    """h and c after one token, by torch's single cells; c stays as it is where the cell has none."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    weights = [layer.kernel.get_parameter(f"{name}_l0{suffix}") for name in names]
    h, c = (part[None] for part in state)
    if layer.cell == "lstm":
        h, c = torch.lstm_cell(x[None], (h, c), *weights)
    else:
        h = {"gru": torch.gru_cell, "rnn": torch.rnn_tanh_cell}[layer.cell](x[None], h, *weights)
    return h[0], c[0]


def read_by_hand(layer: RecurrentLayer, xs: list[Tensor]) -> tuple[list[Tensor], list[State]]:
    """One row through a layer in its direction: the vector at each token, and the last state of each direction."""
    found, last = [], []
    for way in ("forward", "backward") if layer.direction == "both" else (layer.direction,):
        suffix = "_reverse" if layer.direction == "both" and way == "backward" else ""
        zero = torch.zeros(layer.kernel.hidden_size)
        states = [(zero, zero)]
        for x in xs if way == "forward" else reversed(xs):
            states.append(next_state(layer, x, states[-1], suffix))
        outputs = [h for h, _ in states[1:]]
        found.append(outputs if way == "forward" else outputs[::-1])
        last.append(states[-1])
    return [torch.cat(vectors) for vectors in zip(*found, strict=True)], last


def made(config):
    torch.manual_seed(0)
    model = config.build(11).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn_like(weight)  # biases too
    return model


def vectors(embedding, tokens: list[int]) -> list[Tensor]:
    return [embedding.table.weight[token] * embedding.scale for token in tokens]


def scores(model, x: Tensor) -> Tensor:
    """W x + b, W the embedding where it is shared."""
    weight = model.head.linear.weight if model.head.linear is not None else model.target_embedding.table.weight
    return weight @ x + model.head.bias


def context(cross, s: Tensor, source: list[Tensor]) -> Tensor:
    """c = Σ α h with scores by a small network."""
    e = [
        cross.vector.weight[0] @ torch.tanh(cross.query.weight @ s + cross.key.weight @ h + cross.key.bias)
        for h in source
    ]
    alpha = torch.stack(e).softmax(0)
    return sum(a * h for a, h in zip(alpha, source, strict=True))


def translated(model) -> Tensor:
    return model(Sequences.padded([SOURCE]), Sequences.padded([TARGET]))[0]


def test_language_model():
    model = made(RecurrentDecoderConfig(**SMALL))
    first, second = model.stack.layers
    xs, _ = read_by_hand(first, vectors(model.embedding, TARGET))
    ys, _ = read_by_hand(second, xs)
    expected = [model.embedding.table.weight @ y + model.head.bias for y in ys]
    close(model(Sequences.padded([TARGET]))[0], torch.stack(expected))


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_attention_of_the_lectures(cell: str):
    model = made(Seq2SeqConfig(**SMALL, cell=cell))
    xs, states = vectors(model.source_embedding, SOURCE), []
    for layer in model.encoder.stack.layers:
        xs, ((h, c), (h_back, c_back)) = read_by_hand(layer, xs)
        states.append((torch.cat([h, h_back]), torch.cat([c, c_back])))
    expected = []
    for y in vectors(model.target_embedding, TARGET):
        s = y
        for number, layer in enumerate(model.decoder.stack.layers):
            states[number] = next_state(layer, s, states[number])
            s = states[number][0]
        alpha = torch.stack([s @ h for h in xs]).softmax(0)
        c = sum(a * h for a, h in zip(alpha, xs, strict=True))
        expected.append(scores(model, torch.cat([s, c])))
    close(translated(model), torch.stack(expected))


@pytest.mark.parametrize("readout", ["concat", "tanh"])
def test_one_sentence_vector_and_luongs_readout(readout: str):
    attention = "none" if readout == "concat" else "additive"
    model = made(Seq2SeqConfig(**SMALL, depth=1, attention=attention, readout=readout, reading="backward"))
    hs, [state] = read_by_hand(model.encoder.stack.layers[0], vectors(model.source_embedding, SOURCE))
    expected = []
    for y in vectors(model.target_embedding, TARGET):
        state = next_state(model.decoder.stack.layers[0], y, state)
        x = state[0]
        if readout == "tanh":
            both = torch.cat([x, context(model.decoder.cross, x, hs)])
            x = torch.tanh(model.decoder.readout.weight @ both + model.decoder.readout.bias)
        expected.append(scores(model, x))
    close(translated(model), torch.stack(expected))


def test_gnmt():
    model = made(GnmtConfig(**SMALL, depth=4))
    bottom, second, *others = model.encoder.stack.layers
    xs, _ = read_by_hand(bottom, vectors(model.source_embedding, SOURCE))
    xs, _ = read_by_hand(second, xs)
    for layer in others:
        ys, _ = read_by_hand(layer, xs)
        xs = [x + y for x, y in zip(xs, ys, strict=True)]
    layers = [model.decoder.bottom, *model.decoder.others.layers]
    zero = torch.zeros(8)
    states, expected = [(zero, zero)] * 4, []
    for y in vectors(model.target_embedding, TARGET):
        states[0] = next_state(layers[0], y, states[0])
        x = states[0][0]
        c = context(model.decoder.cross, x, xs)
        for number in (1, 2, 3):
            states[number] = next_state(layers[number], torch.cat([x, c]), states[number])
            x = states[number][0] + (x if number >= 2 else 0)
        expected.append(scores(model, x))
    close(translated(model), torch.stack(expected))


def test_deep_att():
    model = made(DeepAttConfig(**SMALL, depth=3))

    def gates(layer, x: Tensor) -> Tensor:
        return layer.kernel.weight_ih_l0 @ x + layer.kernel.bias_ih_l0

    said = []
    for column, ways in zip(model.encoder.columns, (["f", "b", "f"], ["b", "f", "b"]), strict=True):
        xs = vectors(model.source_embedding, SOURCE)
        for number, layer in enumerate(column.layers):
            assert layer.direction[0] == ways[number]
            hs, _ = read_by_hand(layer, xs)
            halves = [gates(layer, x)[:16] for x in xs]
            xs = [torch.cat([f, h]) for f, h in zip(halves, hs, strict=True)]
        said.append([torch.cat([h, f]) for f, h in zip(halves, hs, strict=True)])
    join = model.encoder.join
    source = [join.weight @ torch.cat([*pair]) + join.bias for pair in zip(*said, strict=True)]
    layers, zero = model.decoder.column.layers, torch.zeros(8)
    states, expected = [(zero, zero)] * 3, []
    for x in vectors(model.target_embedding, TARGET):
        for number, layer in enumerate(layers):
            states[number] = next_state(layer, x, states[number])
            h = states[number][0]
            heard = [context(model.decoder.cross, h, source)] if number == 0 else []
            x = torch.cat([gates(layer, x)[:16], h, *heard])
        expected.append(scores(model, h))
    close(translated(model), torch.stack(expected))

"""The graphs of recurrent and convolutional models, whose state is a hidden state or a window of fixed size."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.export.onnx.graphs import LENGTHS, SOURCE, TOKENS, EncoderGraph, GraphTensor, ScoreGraph, StepGraph, scores
from regard.export.onnx.traceable import padded_layout
from regard.models.convolutional import ByteNet
from regard.models.convolutional.base import Seq2Seq
from regard.models.convolutional.windows import WindowModel
from regard.models.recurrent import RecurrentTranslator
from regard.models.recurrent.seq2seq import AttentionDecoder
from regard.models.recurrent.single_stack import SingleRecurrent
from regard.models.recurrent.translator import TranslatorDecoder, TranslatorState
from regard.nn.attention.seq2seq import Seq2SeqAttention, SourceKV
from regard.nn.convolution import Convolution, Window, zero_padding
from regard.nn.layout import Sequences
from regard.nn.recurrent import HiddenState, RecurrentLayer

WRITTEN = GraphTensor("past.written", ("rows",), integer=True)
"""Tokens of each row so far."""


def hidden_state_tensors(decoder: nn.Module) -> list[GraphTensor]:
    """The state of each recurrent layer of a decoder."""
    layers = [part for part in decoder.modules() if isinstance(part, RecurrentLayer)]
    return [
        GraphTensor(f"past.{number}.{part}", ("rows", layer.width))
        for number, layer in enumerate(layers)
        for part in (("output", "cell") if layer.cell == "lstm" else ("output",))
    ]


def hidden_states_of(past: Sequence[Tensor], parts: Sequence[GraphTensor]) -> tuple[HiddenState, ...]:
    """The layers' hidden states from the graph's tensors."""
    states: list[list[Tensor]] = []
    for part, tensor in zip(parts, past, strict=True):
        if part.name.endswith("output"):
            states.append([])
        states[-1].append(tensor[None])
    return tuple(HiddenState(*tensors) for tensors in states)


def tensors_of(hidden_states: Sequence[HiddenState]) -> list[Tensor]:
    pairs = [(state.hidden, state.cell) for state in hidden_states]
    return [tensor[0] for pair in pairs for tensor in pair if tensor is not None]


class RecurrentLanguageModelStep(StepGraph):
    """One step of a recurrent language model."""

    def __init__(self, model: SingleRecurrent, max_positions: int) -> None:
        super().__init__(hidden_state_tensors(model.stack))
        self.model = model

    def forward(self, tokens: Tensor, past: list[Tensor]) -> list[Tensor]:
        x, hidden_states = self.model.stack(self.model.embedding(tokens), None, hidden_states_of(past, self.past))
        return [self.model.head(x), *tensors_of(hidden_states)]


def source_tensors(decoder: TranslatorDecoder) -> list[GraphTensor]:
    """Keys and values of the source, where a recurrent decoder has attention."""
    cross = _cross(decoder)
    if cross is None:
        return []
    # keys and values are computed from vectors as wide as the decoder's hidden states
    width = next(part.width for part in decoder.modules() if isinstance(part, RecurrentLayer))
    key_width = cross.keys(torch.zeros(1, 1, width)).shape[-1]
    widths = {"keys": key_width, "values": width}
    return [GraphTensor(f"heard.{name}", ("rows", "source", size)) for name, size in widths.items()]


def _cross(decoder: TranslatorDecoder) -> Seq2SeqAttention | None:
    cross = decoder.cross
    return cross if isinstance(cross, Seq2SeqAttention) else None


class RecurrentEncoder(EncoderGraph):
    """A recurrent encoder: keys and values for its decoder, and last hidden states where the decoder starts there."""

    def __init__(self, model: RecurrentTranslator, max_positions: int) -> None:
        initial = hidden_state_tensors(model.decoder) if isinstance(model.decoder, AttentionDecoder) else []
        super().__init__({"tokens": SOURCE, "lengths": LENGTHS}, [*source_tensors(model.decoder), *initial])
        self.model, self.max_positions = model, max_positions

    def forward(self, tokens: Tensor, lengths: Tensor) -> list[Tensor]:
        decoder = self.model.decoder
        encoded = self.model.encode(Sequences(tokens, padded_layout(lengths, tokens.shape[1], self.max_positions)))
        outputs = []
        if (cross := _cross(decoder)) is not None:
            source_kv = cross.project_source(encoded.vectors)
            outputs = [source_kv.keys, source_kv.values]
        if isinstance(decoder, AttentionDecoder):
            ends = [state.concatenated() for state in encoded.hidden_states]
            outputs += tensors_of([ends[min(number, len(ends) - 1)] for number in range(len(decoder.stack.layers))])
        return outputs


class RecurrentStep(StepGraph):
    """One step of a recurrent decoder."""

    def __init__(self, model: RecurrentTranslator, max_positions: int) -> None:
        source_kv = source_tensors(model.decoder)
        super().__init__(hidden_state_tensors(model.decoder), [*source_kv, LENGTHS] if source_kv else [])
        self.model = model

    def forward(self, tokens: Tensor, past: list[Tensor], source_kv: list[Tensor] | None = None) -> list[Tensor]:
        source = None
        if source_kv is not None:
            keys, values, lengths = source_kv
            source = SourceKV(keys, values, torch.arange(keys.shape[1])[None] < lengths[:, None])
        state = TranslatorState(hidden_states_of(past, self.past), torch.arange(tokens.shape[0]), source)
        y, state = self.model.decoder(self.model.target_embedding(tokens), state)
        return [self.model.head(y), *tensors_of(state.hidden_states)]


def window_tensors(convolutions: Sequence[Convolution]) -> list[GraphTensor]:
    """The last inputs of each convolution."""
    sizes = [(part.reach, part.width) for part in convolutions]
    return [GraphTensor(f"past.{number}.window", ("rows", *size)) for number, size in enumerate(sizes)]


class WindowStep(StepGraph):
    """One step of a language model of word windows."""

    def __init__(self, model: WindowModel, max_positions: int) -> None:
        super().__init__(window_tensors([part for part in model.layers.modules() if isinstance(part, Convolution)]))
        self.model = model

    def forward(self, tokens: Tensor, past: list[Tensor]) -> list[Tensor]:
        windows = [Window(one) for one in past]
        x = self.model.slide(tokens, windows=windows)
        return [self.model.head(x), *(window.past for window in windows)]


def column_tensors(model: Seq2Seq) -> list[GraphTensor]:
    """What a convolutional decoder reads of the source: columns (ByteNet), or keys and values."""
    width = model.config.width
    if isinstance(model, ByteNet):
        return [GraphTensor("heard.columns", ("rows", "columns", width))]
    return [GraphTensor(f"heard.{name}", ("rows", "source", width)) for name in ("keys", "values")]


class ConvolutionalEncoder(EncoderGraph):
    """A convolutional encoder."""

    def __init__(self, model: Seq2Seq, max_positions: int) -> None:
        super().__init__({"tokens": SOURCE, "lengths": LENGTHS}, column_tensors(model))
        self.model, self.max_positions = model, max_positions

    def forward(self, tokens: Tensor, lengths: Tensor) -> list[Tensor]:
        if isinstance(self.model, ByteNet):
            return [bytenet_encoder(self.model, tokens, lengths)]
        source = Sequences(tokens, padded_layout(lengths, tokens.shape[1], self.max_positions))
        return list(self.model.project_source(source)[:2])


def bytenet_encoder(model: ByteNet, tokens: Tensor, lengths: Tensor) -> Tensor:
    """ByteNet's dynamic unfolding: columns for the longest row and some more, zero beyond each row's length."""
    config, time = model.config, tokens.shape[1]
    columns = math.ceil(config.stretch) * time + config.extra + 1
    x = zero_padding(model.source_embedding(tokens), torch.arange(time)[None] < lengths[:, None])
    x = F.pad(x, (0, 0, 0, columns - time))
    row_columns = (lengths.double() * config.stretch).long() + config.extra
    valid = torch.arange(columns)[None] < row_columns[:, None]
    for block in model.encoder:
        x = block(x, valid)
    return zero_padding(x, valid)


def bytenet_decoder(
    model: ByteNet, tokens: Tensor, positions: Tensor, columns: Tensor, windows: Sequence[Window]
) -> Tensor:
    """ByteNet's decoder: each position reads the column of its index, beyond the end the last one, which is zero."""
    index = torch.minimum(positions, torch.arange(columns.shape[1])[-1])
    column = columns.gather(1, index[..., None].expand(-1, -1, columns.shape[2]))
    x = model.target_embedding(tokens)
    x = x + column if model.join is None else model.join(torch.cat([x, column], dim=-1))
    for block, window in zip(model.decoder, windows, strict=True):
        x = block(x, None, window)
    return x


class ConvolutionalStep(StepGraph):
    """One step of a convolutional decoder."""

    def __init__(self, model: Seq2Seq, max_positions: int) -> None:
        source_kv = column_tensors(model)
        lengths = [] if isinstance(model, ByteNet) else [LENGTHS]
        super().__init__([*window_tensors(model.decoder_convolutions()), WRITTEN], [*source_kv, *lengths])
        self.model = model

    def forward(self, tokens: Tensor, past: list[Tensor], source_kv: list[Tensor]) -> list[Tensor]:
        *inputs, length = past
        windows = [Window(one) for one in inputs]
        positions = length[:, None] + torch.arange(tokens.shape[1])
        if isinstance(self.model, ByteNet):
            x = bytenet_decoder(self.model, tokens, positions, source_kv[0], windows)
        else:
            x = self.model.decode(tokens, positions, tuple(source_kv), windows)
        return [self.model.head(x), *(window.past for window in windows), length + tokens.shape[1]]


class RecurrentScores(ScoreGraph):
    """A recurrent classifier or tagger."""

    def __init__(self, model: SingleRecurrent, max_positions: int) -> None:
        super().__init__({"tokens": TOKENS, "lengths": LENGTHS})
        self.model = model

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        valid = torch.arange(tokens.shape[1])[None] < lengths[:, None]
        x, _ = self.model.stack(self.model.embedding(tokens), lengths, valid=valid)
        return scores(self.model.head, x, lengths)


class WindowScores(ScoreGraph):
    """A classifier or tagger of word windows."""

    def __init__(self, model: WindowModel, max_positions: int) -> None:
        super().__init__({"tokens": TOKENS, "lengths": LENGTHS})
        self.model = model

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        valid = torch.arange(tokens.shape[1])[None] < lengths[:, None]
        x = self.model.slide(tokens, None, None if self.model.causal else valid)
        return scores(self.model.head, x, lengths)

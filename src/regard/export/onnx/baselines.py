"""The graphs of recurrent and convolutional models: the decoder state is a hidden state or a window, of fixed size."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.export.onnx.graphs import LENGTHS, SOURCE, TOKENS, Label, Part, Read, Step
from regard.export.onnx.parts import for_graph, padded_layout
from regard.export.onnx.transformers import scores
from regard.models.convolutional import ByteNet
from regard.models.recurrent.seq2seq import AttentionDecoder
from regard.models.recurrent.translator import TranslatorState
from regard.nn.attention.recurrent import SourceKV
from regard.nn.convolution import Convolution, Window, zero_padding
from regard.nn.layout import Sequences
from regard.nn.recurrent import HiddenState, RecurrentLayer

WRITTEN = Part("past.written", ("rows",), whole=True)
"""How many tokens each row holds."""


def memory_parts(decoder: nn.Module) -> list[Part]:
    """What each layer of a decoder carries from one token to the next."""
    layers = [part for part in decoder.modules() if isinstance(part, RecurrentLayer)]
    return [
        Part(f"past.{number}.{part}", ("rows", layer.width))
        for number, layer in enumerate(layers)
        for part in (("output", "cell") if layer.cell == "lstm" else ("output",))
    ]


def memories_of(past: Sequence[Tensor], parts: Sequence[Part]) -> tuple[HiddenState, ...]:
    """The layers' memories from tensors with a row each."""
    found: list[list[Tensor]] = []
    for part, tensor in zip(parts, past, strict=True):
        if part.name.endswith("output"):
            found.append([])
        found[-1].append(tensor[None])
    return tuple(HiddenState(*tensors) for tensors in found)


def tensors_of(hidden_states: Sequence[HiddenState]) -> list[Tensor]:
    """The reverse."""
    pairs = [(hidden_state.hidden, hidden_state.cell) for hidden_state in hidden_states]
    return [tensor[0] for pair in pairs for tensor in pair if tensor is not None]


class ReadOn(Step):
    """One step of a recurrent language model."""

    def __init__(self, model: nn.Module, room: int) -> None:
        twin = for_graph(model, room)
        super().__init__(memory_parts(twin.stack))
        self.model = twin

    def forward(self, tokens: Tensor, past: list[Tensor]) -> list[Tensor]:
        """Logits of what follows each token, and the memories after them."""
        x, hidden_states = self.model.stack(self.model.embedding(tokens), None, memories_of(past, self.past))
        return [self.model.head(x), *tensors_of(hidden_states)]


def listening_parts(decoder: nn.Module) -> list[Part]:
    """What a recurrent decoder hears; nothing where it has no attention."""
    cross = decoder.cross
    if cross is None:
        return []
    return [Part(f"heard.{name}", ("rows", "source", _width(decoder, name))) for name in ("keys", "values")]


def _width(decoder: nn.Module, name: str) -> int:
    """Numbers of a key or a value: what the attention makes of vectors as wide as the decoder's memories."""
    width = next(part.width for part in decoder.modules() if isinstance(part, RecurrentLayer))
    vectors = torch.zeros(1, 1, width)
    return vectors.shape[-1] if name == "values" else decoder.cross.keys(vectors).shape[-1]  # type: ignore[union-attr, operator]


class ReadRecurrently(Read):
    """A recurrent encoder: what its decoder hears, and where its last memories are handed on, these."""

    def __init__(self, model: nn.Module, room: int) -> None:
        twin = for_graph(model, room)
        handed = memory_parts(twin.decoder) if isinstance(twin.decoder, AttentionDecoder) else []
        super().__init__({"tokens": SOURCE, "lengths": LENGTHS}, [*listening_parts(twin.decoder), *handed])
        self.model, self.room = twin, room

    def forward(self, tokens: Tensor, lengths: Tensor) -> list[Tensor]:
        """Keys and values, then memories."""
        decoder = self.model.decoder
        encoded = self.model.encode(Sequences(tokens, padded_layout(lengths, tokens.shape[1], self.room)))
        said = []
        if decoder.cross is not None:
            heard = decoder.cross.project_source(encoded.vectors)
            said = [heard.keys, heard.values]
        if isinstance(decoder, AttentionDecoder):
            ends = [hidden_state.concatenated() for hidden_state in encoded.hidden_states]
            said += tensors_of([ends[min(number, len(ends) - 1)] for number in range(len(decoder.stack.layers))])
        return said


class WriteRecurrently(Step):
    """One step of a recurrent decoder."""

    def __init__(self, model: nn.Module, room: int) -> None:
        twin = for_graph(model, room)
        heard = listening_parts(twin.decoder)
        super().__init__(memory_parts(twin.decoder), [*heard, LENGTHS] if heard else [])
        self.model = twin

    def forward(self, tokens: Tensor, past: list[Tensor], heard: list[Tensor] | None = None) -> list[Tensor]:
        """Logits of what follows each token, and the memories after them."""
        source = None
        if heard is not None:
            keys, values, lengths = heard
            source = SourceKV(keys, values, torch.arange(keys.shape[1])[None] < lengths[:, None])
        state = TranslatorState(memories_of(past, self.past), torch.arange(tokens.shape[0]), source)
        y, state = self.model.decoder(self.model.target_embedding(tokens), state)
        return [self.model.head(y), *tensors_of(state.hidden_states)]


def window_parts(convolutions: Sequence[Convolution]) -> list[Part]:
    """The last inputs of each convolution."""
    sizes = [(part.reach, part.width) for part in convolutions]
    return [Part(f"past.{number}.window", ("rows", *size)) for number, size in enumerate(sizes)]


class SlideOn(Step):
    """One step of a language model of word windows."""

    def __init__(self, model: nn.Module, room: int) -> None:
        twin = for_graph(model, room)
        super().__init__(window_parts([layer.convolution for layer in twin.layers]))
        self.model = twin

    def forward(self, tokens: Tensor, past: list[Tensor]) -> list[Tensor]:
        """Logits of what follows each token, and the windows after them."""
        windows = [Window(one) for one in past]
        x = self.model.slide(tokens, windows=windows)
        return [self.model.head(x), *(window.past for window in windows)]


def columns_parts(model: nn.Module) -> list[Part]:
    """What the decoder of a convolutional model hears: ByteNet columns, the other keys and values."""
    width = model.config.width  # type: ignore[union-attr]
    if isinstance(model, ByteNet):
        return [Part("heard.columns", ("rows", "columns", width))]  # type: ignore[arg-type]
    return [Part(f"heard.{name}", ("rows", "source", width)) for name in ("keys", "values")]  # type: ignore[arg-type]


class ReadWindows(Read):
    """A convolutional encoder."""

    def __init__(self, model: nn.Module, room: int) -> None:
        twin = for_graph(model, room)
        super().__init__({"tokens": SOURCE, "lengths": LENGTHS}, columns_parts(twin))
        self.model, self.room = twin, room

    def forward(self, tokens: Tensor, lengths: Tensor) -> list[Tensor]:
        """Columns, or keys and values."""
        if isinstance(self.model, ByteNet):
            return [draw_out(self.model, tokens, lengths)]
        source = Sequences(tokens, padded_layout(lengths, tokens.shape[1], self.room))
        return list(self.model.project_source(source)[:2])


def draw_out(model: ByteNet, tokens: Tensor, lengths: Tensor) -> Tensor:
    """The encoder's columns, some more than the longest row has; those beyond a row's own are zero, as ever."""
    config, time = model.config, tokens.shape[1]
    columns = math.ceil(config.stretch) * time + config.extra + 1
    x = zero_padding(model.source_embedding(tokens), torch.arange(time)[None] < lengths[:, None])
    x = F.pad(x, (0, 0, 0, columns - time))
    own = (lengths.double() * config.stretch).long() + config.extra
    valid = torch.arange(columns)[None] < own[:, None]
    for block in model.encoder:
        x = block(x, valid)
    return zero_padding(x, valid)


def beside_columns(
    model: ByteNet, tokens: Tensor, places: Tensor, columns: Tensor, windows: Sequence[Window]
) -> Tensor:
    """ByteNet's decoder: each place reads the column that stands where it does, beyond the last one the last, zeros."""
    place = torch.minimum(places, torch.arange(columns.shape[1])[-1])
    column = columns.gather(1, place[..., None].expand(-1, -1, columns.shape[2]))
    x = model.target_embedding(tokens)
    x = x + column if model.join is None else model.join(torch.cat([x, column], dim=-1))
    for block, window in zip(model.decoder, windows, strict=True):
        x = block(x, None, window)
    return x


class WriteWindows(Step):
    """One step of a convolutional decoder."""

    def __init__(self, model: nn.Module, room: int) -> None:
        twin = for_graph(model, room)
        heard = columns_parts(twin)
        listens = [] if isinstance(twin, ByteNet) else [LENGTHS]
        super().__init__([*window_parts(twin.decoder_convolutions()), WRITTEN], [*heard, *listens])
        self.model = twin

    def forward(self, tokens: Tensor, past: list[Tensor], heard: list[Tensor]) -> list[Tensor]:
        """Logits of what follows each token, and the windows after them."""
        *windows, written = past
        passing = [Window(one) for one in windows]
        places = written[:, None] + torch.arange(tokens.shape[1])
        if isinstance(self.model, ByteNet):
            x = beside_columns(self.model, tokens, places, heard[0], passing)
        else:
            x = self.model.decode(tokens, places, tuple(heard), passing)
        return [self.model.head(x), *(window.past for window in passing), written + tokens.shape[1]]


class LabelRecurrently(Label):
    """A recurrent reader with its output layer."""

    def __init__(self, model: nn.Module, room: int) -> None:
        super().__init__({"tokens": TOKENS, "lengths": LENGTHS})
        self.model = for_graph(model, room)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """One row of scores a text, or a token."""
        valid = torch.arange(tokens.shape[1])[None] < lengths[:, None]
        x, _ = self.model.stack(self.model.embedding(tokens), lengths, valid=valid)
        return scores(self.model.head, x, lengths)


class LabelWindows(Label):
    """A reader of word windows with its output layer."""

    def __init__(self, model: nn.Module, room: int) -> None:
        super().__init__({"tokens": TOKENS, "lengths": LENGTHS})
        self.model = for_graph(model, room)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """One row of scores a text, or a token."""
        valid = torch.arange(tokens.shape[1])[None] < lengths[:, None]
        x = self.model.slide(tokens, None, None if self.model.causal else valid)
        return scores(self.model.head, x, lengths)

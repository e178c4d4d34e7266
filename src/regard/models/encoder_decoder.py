"""The encoder-decoder of Vaswani 2017: one stack encodes the source, another decodes the target."""

from dataclasses import replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import PositiveInt, model_validator
from torch import Tensor

from regard.config import refuse
from regard.models.contract import GenerativeModel
from regard.models.stack import Stack, StackConfig, TextStackConfig
from regard.models.stepper import padded_source
from regard.models.transformer import DecoderState, refuse_tree, start_decoding
from regard.nn.attention.kinds import AttentionConfig
from regard.nn.cache import KVCache
from regard.nn.context import AttentionContext
from regard.nn.fast.packed import prepare_key_ranges
from regard.nn.head import VocabularyHeadConfig
from regard.nn.layout import Layout, Sequences
from regard.nn.position import PositionConfig


class EncoderDecoderConfig(TextStackConfig):
    """Encodes one sequence and decodes another: translation, summaries, parsing."""

    kind: Literal["encoder-decoder"] = "encoder-decoder"
    shape: ClassVar[str] = "encoder-decoder"
    decoder_depth: PositiveInt | None = None
    """Blocks of the decoder; as many as the encoder's when left out."""
    decoder_position: PositionConfig | None = None
    """Position encoding of the decoder; the encoder's when left out."""
    decoder_attention: AttentionConfig | None = None
    """Attention of the decoder; the encoder's when left out."""
    head: VocabularyHeadConfig = VocabularyHeadConfig()
    """Output layer."""

    @model_validator(mode="after")
    def _decoder_writes_left_to_right(self) -> "EncoderDecoderConfig":
        refuse_tree(self.target_position, "decoder_position")
        self._decoder_attention_fits("attention" if self.decoder_attention is None else "decoder_attention")
        return self

    def _decoder_attention_fits(self, setting: str) -> None:
        attention = self.target_attention
        attention.refuse_causal(setting)
        attention.refuse_position(self.target_position.kind)
        attention.refuse_widths(self.width, self.heads, self.target_position, setting)
        if attention.kv_heads and self.heads % attention.kv_heads:
            raise refuse(f"{setting}.kv_heads", f"expected a divisor of heads = {self.heads}, got {attention.kv_heads}")
        head_width = attention.width_of_head(self.width, self.heads)
        if head_width != self.head_width:
            raise refuse(f"{setting}.head_width", f"expected the encoder's {self.head_width}, got {head_width}")

    @property
    def longest_target(self) -> int | None:
        return self.target_position.longest

    @property
    def target_depth(self) -> int:
        return self.decoder_depth or self.depth

    @property
    def target_position(self) -> PositionConfig:
        return self.decoder_position or self.position

    @property
    def target_attention(self) -> AttentionConfig:
        return self.decoder_attention or self.attention

    def build(self, source_vocab: int, target_vocab: int | None = None) -> "EncoderDecoder":
        return EncoderDecoder(self, source_vocab, self.embedding.target_vocab(source_vocab, target_vocab))

    def num_params(self, source_vocab: int, target_vocab: int | None = None) -> int:
        target_vocab, embedding = self.embedding.target_vocab(source_vocab, target_vocab), self.embedding
        total = embedding.num_params(target_vocab, self.width)
        total += 0 if embedding.shares_inputs else embedding.num_params(source_vocab, self.width)
        total += self.stack_params(self.depth, self.position, input_norm=embedding.norm)
        total += self.stack_params(
            self.target_depth, self.target_position, True, embedding.norm, attention=self.target_attention
        )
        return total + self.head.num_params(self.width, target_vocab, shared=embedding.shares_output)

    def flops(self, batch: int, source: int, target: int, vocab: int) -> int:
        factor = self.embedding.factor if self.embedding.shares_output else None
        total = self.stack_flops(self.depth, self.position, batch, source)
        total += self.stack_flops(self.target_depth, self.target_position, batch, target, source, self.target_attention)
        total += self.embedding.flops(self.width, batch * (source + target))
        return total + self.head.flops(self.width, vocab, batch * target, factor)


class EncoderDecoder(GenerativeModel[StackConfig, DecoderState]):
    """decoder(target so far, encoder(source)); a `Stepper`."""

    def __init__(self, config: EncoderDecoderConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__()
        self.config = config
        embedding, norm = config.embedding, config.embedding.norm
        self.target_embedding = embedding.build(target_vocab, config.width)
        separate = None if embedding.shares_inputs else embedding.build(source_vocab, config.width)
        self.source_embedding = separate or self.target_embedding
        self.encoder = Stack(config, config.depth, config.position, input_norm=norm)
        self.decoder = Stack(
            config,
            config.target_depth,
            config.target_position,
            causal=True,
            cross=True,
            input_norm=norm,
            attention=config.target_attention,
        )
        shared = self.target_embedding if embedding.shares_output else None
        self.head = config.head.build(config.width, target_vocab, shared)
        config.initialise.apply(self, config.depth)

    def forward(self, source: Sequences, target: Sequences) -> Float[Tensor, "batch time vocab"]:
        return self.head(self.hidden(source, target))

    def hidden(self, source: Sequences, target: Sequences) -> Float[Tensor, "batch time width"]:
        return self.decode(target, self.encode(source), source.layout)

    def encode(self, source: Sequences) -> Float[Tensor, "batch time width"]:
        layout = source.layout
        x = self.source_embedding(source.tokens)
        return self.encoder(x, self.encoder.context(layout), None if layout.whole else layout.valid)

    def decode(
        self, target: Sequences, encoded: Float[Tensor, "batch source width"], source: Layout
    ) -> Float[Tensor, "batch time width"]:
        layout = target.layout
        pattern = source.cross_pattern(layout)
        prepare_key_ranges(pattern)
        source_context = AttentionContext(pattern, layout.positions, source.positions)
        x = self.target_embedding(target.tokens)
        valid = None if layout.whole else layout.valid
        return self.decoder(
            x, self.decoder.context(layout), valid, self.decoder.project_source(encoded), source_context
        )

    @torch.no_grad()
    def start(self, source: Sequences | None, *, rows: int, capacity: int) -> DecoderState:
        source = padded_source(source, rows)
        source_kv: list[KVCache] = self.decoder.project_source(self.encode(source))
        state = start_decoding(self.decoder, self.target_embedding.table.weight, rows, capacity)
        source_rows = torch.arange(rows, device=source.tokens.device)
        return replace(state, source_kv=source_kv, source_layout=source.layout, source_rows=source_rows)

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "batch time"], state: DecoderState, lengths: Int[Tensor, " batch"] | None = None
    ) -> tuple[Float[Tensor, "batch time vocab"], DecoderState]:
        assert state.source_layout is not None
        time, layout = tokens.shape[1], state.source_layout
        context = self.decoder.next_context(state.cache_lengths, time)
        source_context = AttentionContext(layout.cross_pattern(layout), context.query_positions, layout.positions)
        x = self.target_embedding(tokens)
        x = self.decoder(x, context, None, state.source_kv, source_context, state.caches, state.cache_lengths)
        return self.head(x), replace(state, cache_lengths=state.cache_lengths.advance(time, lengths))

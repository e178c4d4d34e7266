"""What all recurrent models have in common: their settings, and what they refuse."""

from typing import ClassVar

from pydantic import PositiveInt, model_validator

from regard.config import Config, refuse
from regard.errors import ConfigError
from regard.nn.embedding import EmbeddingConfig
from regard.nn.layout import Layout
from regard.nn.recurrent.dropout import RecurrentDropoutConfig, RecurrentDropoutSettings
from regard.nn.recurrent.initialise import OrthogonalConfig, RecurrentInitialiseConfig


class RecurrentConfig(Config):
    """Settings that every recurrent model has, whatever its shape."""

    width: PositiveInt = 256
    """Numbers that come out of a layer at each token."""
    depth: PositiveInt = 2
    """Layers, one above the other."""
    embedding_width: PositiveInt | None = None
    """Numbers of a token's vector before the first layer; as many as width when left out."""
    embedding: EmbeddingConfig = EmbeddingConfig()
    """How tokens become vectors, and what source, target and output share."""
    dropout: RecurrentDropoutConfig = RecurrentDropoutSettings(embedding=0.2, between=0.2, output=0.2)
    """What is dropped while training; one number sets embedding, between and output."""
    initialise: RecurrentInitialiseConfig = OrthogonalConfig()
    """Random numbers that training starts from."""

    longest: ClassVar[int | None] = None
    """Most tokens of a sequence: any number."""
    longest_target: ClassVar[int | None] = None
    """Most tokens of a target: any number."""

    @model_validator(mode="after")
    def _plain_inputs(self) -> "RecurrentConfig":
        if self.embedding.norm:
            raise refuse("embedding.norm", "recurrent layers take their inputs as they are; leave it out")
        return self

    @property
    def token_width(self) -> int:
        """Numbers of a token's vector before the first layer."""
        return self.embedding_width or self.width


def even_width(width: int, setting: str) -> None:
    """Layers that read both ways have half the width each."""
    if width % 2:
        raise refuse(setting, f"both directions have half of it each: expected an even number, got {width}")


def refuse_packed(layout: Layout) -> None:
    """A memory runs through its whole row, so a row can hold one sequence only."""
    if layout.packed:
        raise ConfigError(
            "data.batching", "recurrent models read one sequence a row, got packed batches; use 'bucketed' ones"
        )

"""Image in, sentence out: an encoder reads the patches, a decoder writes and listens to them (Xu 2015)."""

from typing import ClassVar, Literal

from jaxtyping import Float
from pydantic import PositiveInt, model_validator
from torch import Tensor, nn

from regard.models.encoder_decoder import EncoderDecoder
from regard.models.patches import PatchConfig, Patches, to_patches
from regard.models.stack import Stack
from regard.models.transformer import refuse_tree
from regard.nn.embedding import EmbeddingConfig
from regard.nn.head import VocabularyHeadConfig
from regard.nn.layout import Sequences
from regard.nn.position import LearnedConfig, PositionConfig, SinusoidalConfig


class VisionEncoderDecoderConfig(PatchConfig):
    """Reads an image and writes a text about it: image description."""

    kind: Literal["vision-encoder-decoder"] = "vision-encoder-decoder"
    shape: ClassVar[str] = "vision-encoder-decoder"
    position: PositionConfig = LearnedConfig(length=64)
    """How the model knows where a patch stands; a learned table needs a place for each patch."""
    embedding: EmbeddingConfig = EmbeddingConfig()
    """How the tokens of the text become vectors, and whether the output layer shares them."""
    decoder_depth: PositiveInt | None = None
    """Blocks of the decoder; as many as the encoder's when left out."""
    decoder_position: PositionConfig = SinusoidalConfig()
    """Position kind of the decoder."""
    head: VocabularyHeadConfig = VocabularyHeadConfig()
    """Output layer."""

    @model_validator(mode="after")
    def _decoder_writes_left_to_right(self) -> "VisionEncoderDecoderConfig":
        refuse_tree(self.decoder_position, "decoder_position")
        self.attention.refuse_causal("attention")
        self.attention.refuse_position(self.decoder_position.kind)
        return self

    @property
    def longest(self) -> int | None:
        """Most tokens of a text, where the decoder's positions have an end."""
        return self.decoder_position.longest

    @property
    def target_depth(self) -> int:
        """Blocks of the decoder."""
        return self.decoder_depth or self.depth

    def build(self, vocab: int) -> "VisionEncoderDecoder":
        """The model for a vocabulary."""
        return VisionEncoderDecoder(self, vocab)

    def num_params(self, vocab: int) -> int:
        """Learned numbers of the whole model."""
        total = self.pixels * self.width + self.width + self.embedding.num_params(vocab, self.width)
        total += self.stack_params(self.depth, self.position)
        total += self.stack_params(self.target_depth, self.decoder_position, True, self.embedding.norm)
        return total + self.head.num_params(self.width, vocab, shared=self.embedding.shares_output)

    def flops(self, batch: int, target: int, vocab: int) -> int:
        """Matrix-product FLOPs of one forward pass over full grids; training costs three times as much."""
        factor = self.embedding.factor if self.embedding.shares_output else None
        total = 2 * batch * self.patches * self.pixels * self.width
        total += self.stack_flops(self.depth, self.position, batch, self.patches)
        total += self.stack_flops(self.target_depth, self.decoder_position, batch, target, self.patches)
        total += self.embedding.flops(self.width, batch * target)
        return total + self.head.flops(self.width, vocab, batch * target, factor)


class VisionEncoderDecoder(EncoderDecoder):
    """decoder(text so far, encoder(patches)); a Stepper."""

    def __init__(self, config: VisionEncoderDecoderConfig, vocab: int) -> None:
        nn.Module.__init__(self)  # the encoder-decoder of texts would make an embedding of tokens for the source
        self.config = config
        norm = config.embedding.norm
        self.patch_embedding = nn.Linear(config.pixels, config.width)
        self.target_embedding = config.embedding.build(vocab, config.width)
        self.encoder = Stack(config, config.depth, config.position)
        self.decoder = Stack(
            config, config.target_depth, config.decoder_position, causal=True, cross=True, input_norm=norm
        )
        shared = self.target_embedding if config.embedding.shares_output else None
        self.head = config.head.build(config.width, vocab, shared)
        config.initialise.apply(self, config.depth)

    def encode(self, source: Sequences) -> Float[Tensor, "batch time width"]:
        """What the encoder has to say about each patch."""
        assert isinstance(source, Patches)
        self.config.check_images(source.images)
        x = self.patch_embedding(to_patches(source.images, self.config.patch))
        return self.encoder(x, self.encoder.context(source.layout))

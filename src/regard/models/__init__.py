"""Parts assembled into models: encoder, decoder, encoder-decoder, vision; each a kind that a recipe can name."""

from typing import Annotated, get_args

from regard.config import BARE_KIND, BY_KIND
from regard.models.encoder_decoder import EncoderDecoder as EncoderDecoder
from regard.models.encoder_decoder import EncoderDecoderConfig as EncoderDecoderConfig
from regard.models.presets import PRESETS as PRESETS
from regard.models.presets import preset as preset
from regard.models.stepper import Stepper as Stepper
from regard.models.transformer import Decoder as Decoder
from regard.models.transformer import DecoderConfig as DecoderConfig
from regard.models.transformer import Encoder as Encoder
from regard.models.transformer import EncoderConfig as EncoderConfig
from regard.models.vision import VisionConfig as VisionConfig
from regard.models.vision import VisionTransformer as VisionTransformer

AnyModelConfig = EncoderDecoderConfig | EncoderConfig | DecoderConfig | VisionConfig
ModelConfig = Annotated[AnyModelConfig, BY_KIND, BARE_KIND]


def kinds_of(shape: str) -> list[str]:
    """The kinds of models that a shape has: encoder, decoder, encoder-decoder or vision."""
    return [config.model_fields["kind"].default for config in get_args(AnyModelConfig) if config.shape == shape]

"""Parts assembled into models, Transformers and their baselines; each a kind that a recipe can name."""

from regard.config import import_all, kinds
from regard.models.contract import ModelConfig as ModelConfig
from regard.models.convolutional import ByteNetConfig as ByteNetConfig
from regard.models.convolutional import ConvS2SConfig as ConvS2SConfig
from regard.models.convolutional import WindowDecoderConfig as WindowDecoderConfig
from regard.models.convolutional import WindowEncoderConfig as WindowEncoderConfig
from regard.models.encoder_decoder import EncoderDecoder as EncoderDecoder
from regard.models.encoder_decoder import EncoderDecoderConfig as EncoderDecoderConfig
from regard.models.presets import PRESETS as PRESETS
from regard.models.presets import preset as preset
from regard.models.recurrent import DeepAttConfig as DeepAttConfig
from regard.models.recurrent import GnmtConfig as GnmtConfig
from regard.models.recurrent import RecurrentDecoderConfig as RecurrentDecoderConfig
from regard.models.recurrent import RecurrentEncoderConfig as RecurrentEncoderConfig
from regard.models.recurrent import Seq2SeqConfig as Seq2SeqConfig
from regard.models.stepper import Stepper as Stepper
from regard.models.transformer import Decoder as Decoder
from regard.models.transformer import DecoderConfig as DecoderConfig
from regard.models.transformer import Encoder as Encoder
from regard.models.transformer import EncoderConfig as EncoderConfig
from regard.models.vision import Patches as Patches
from regard.models.vision import VisionConfig as VisionConfig
from regard.models.vision import VisionEncoderDecoder as VisionEncoderDecoder
from regard.models.vision import VisionEncoderDecoderConfig as VisionEncoderDecoderConfig
from regard.models.vision import VisionTransformer as VisionTransformer

import_all(__name__, __path__)  # a new kind of model is a file in this folder


def kinds_of(shape: str) -> list[str]:
    """The kinds of models that a shape has: encoder, decoder, encoder-decoder or vision."""
    members = kinds(ModelConfig).items()
    return [kind for kind, member in members if issubclass(member, ModelConfig) and member.shape == shape]

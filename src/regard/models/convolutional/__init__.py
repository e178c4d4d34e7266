"""Convolutional baselines: word windows, ByteNet, ConvS2S."""

from regard.models.convolutional.bytenet import ByteNet as ByteNet
from regard.models.convolutional.bytenet import ByteNetConfig as ByteNetConfig
from regard.models.convolutional.convs2s import ConvS2S as ConvS2S
from regard.models.convolutional.convs2s import ConvS2SConfig as ConvS2SConfig
from regard.models.convolutional.windows import WindowDecoder as WindowDecoder
from regard.models.convolutional.windows import WindowDecoderConfig as WindowDecoderConfig
from regard.models.convolutional.windows import WindowEncoder as WindowEncoder
from regard.models.convolutional.windows import WindowEncoderConfig as WindowEncoderConfig

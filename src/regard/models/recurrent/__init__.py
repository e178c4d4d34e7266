"""The recurrent baselines: language models and encoders of one stack, and the translation systems of 2014 to 2017."""

from regard.models.recurrent.deep_att import DeepAttConfig as DeepAttConfig
from regard.models.recurrent.gnmt import GnmtConfig as GnmtConfig
from regard.models.recurrent.seq2seq import Seq2SeqConfig as Seq2SeqConfig
from regard.models.recurrent.single_stack import RecurrentDecoder as RecurrentDecoder
from regard.models.recurrent.single_stack import RecurrentDecoderConfig as RecurrentDecoderConfig
from regard.models.recurrent.single_stack import RecurrentEncoder as RecurrentEncoder
from regard.models.recurrent.single_stack import RecurrentEncoderConfig as RecurrentEncoderConfig
from regard.models.recurrent.translator import RecurrentTranslator as RecurrentTranslator

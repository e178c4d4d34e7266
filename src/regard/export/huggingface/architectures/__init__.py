"""The architectures of Hugging Face that are exported and imported, and the choice among them."""

from typing import Any

from regard.errors import ConfigError
from regard.export.huggingface.architecture import Architecture
from regard.export.huggingface.architectures.bart import MARIAN, PEGASUS
from regard.export.huggingface.architectures.bert import BERT, BERT_CLASSIFIER, BERT_TAGGER
from regard.export.huggingface.architectures.gpt import GPT2, GPT_NEOX
from regard.export.huggingface.architectures.llama import LLAMA
from regard.export.huggingface.architectures.t5 import T5
from regard.export.huggingface.architectures.vit import VIT
from regard.export.supported_settings import unsupported_error, unsupported_settings
from regard.models import ModelConfig

ARCHITECTURES: tuple[Architecture[Any], ...] = (
    *(MARIAN, PEGASUS, BERT, BERT_CLASSIFIER, BERT_TAGGER),
    *(GPT2, GPT_NEOX, LLAMA, T5, VIT),
)


def choose(config: ModelConfig, hint: str) -> Architecture[Any]:
    """The architecture that can express a model; where none can, the nearest says what it does not support."""
    candidates = [one for one in ARCHITECTURES if one.shape == config.shape and config.kind == config.shape]
    if not candidates:
        shapes = ", ".join(sorted({one.shape for one in ARCHITECTURES}))
        raise ConfigError("model.kind", f"Hugging Face folders hold one of {shapes}, got '{config.kind}'; {hint}")
    problems = [(unsupported_settings(config, one.supported(config)), one) for one in candidates]
    # one with another kind of head does another task, however near it is
    nearest = min(problems, key=lambda one: (any(p.path == "model.head.kind" for p in one[0]), len(one[0])))
    if nearest[0]:
        raise unsupported_error(f"the {nearest[1].name} layout", nearest[0], hint)
    return nearest[1]

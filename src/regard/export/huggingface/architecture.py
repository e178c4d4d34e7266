"""What one architecture of Hugging Face is: supported settings, keys of config.json, parameter names."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from torch import Tensor

from regard.errors import ConfigError
from regard.export.huggingface.config_keys import NO_DEFAULT, Json, Keys, honoured, irrelevant, refused
from regard.export.huggingface.generation_config import GENERATION
from regard.export.huggingface.parameter_names import ParameterNames
from regard.export.supported_settings import Supported, setting
from regard.models.stack import StackConfig

TRAINING = "acts in training only; a recipe that fine-tunes has its own"
INITIALISATION = "how weights are drawn before training"
OTHER_HEAD = "of an output layer that this architecture does not have"
SPEED = "how the same result is computed"
RECORD = "a record of where the file comes from"
OUTPUTS = "which further outputs the library returns"
TOKENIZER = "the tokenizer's files say how texts are tokenised"
IN_GENERATION = "a setting of generation: read where generation_config.json is missing"

DTYPES = (None, "float32", "float16", "bfloat16", "auto")
TOKEN_IDS = tuple(f"{name}_token_id" for name in ("pad", "bos", "eos", "sep", "unk", "cls", "mask"))
COMMON = (
    irrelevant(IN_GENERATION, *GENERATION.honoured, *GENERATION.irrelevant, *GENERATION.refused, *GENERATION.noted)
    | honoured(architectures=None, **dict.fromkeys(TOKEN_IDS, NO_DEFAULT))
    | irrelevant(
        RECORD,
        *("_name_or_path", "name_or_path", "_commit_hash", "finetuning_task", "language"),
        transformers_version=None,
    )
    | irrelevant(
        OUTPUTS,
        *("output_attentions", "output_past", "use_return_dict", "tie_last_hidden_states"),
        output_hidden_states=False,
        return_dict=True,
    )
    | irrelevant(
        SPEED,
        *("use_cache", "gradient_checkpointing", "torchscript", "use_bfloat16", "attn_implementation"),
        *("_attn_implementation", "_attn_implementation_autoset", "experts_implementation"),
        chunk_size_feed_forward=0,
    )
    | irrelevant(
        OTHER_HEAD,
        *("summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "summary_first_dropout"),
    )
    | irrelevant(TRAINING, "tf_legacy_loss")
    | irrelevant("labels are read from id2label", label2id=None)
    | irrelevant("labels are counted in id2label", "_num_labels")
    | irrelevant(TOKENIZER, "tokenizer_class", "prefix")
    | irrelevant("suggestions to other programs; the model does not read it", "task_specific_params")
    | refused("dtype", *DTYPES, default=None)
    | refused("torch_dtype", *DTYPES)
    | refused("quantization_config", None)
    | refused("auto_map", None, {})
    | refused("per_layer_config", None, {})
    | refused("pruned_heads", {}, None)
    | refused("is_decoder", False)
    | refused("add_cross_attention", False)
    | refused("cross_attention_hidden_size", None)
    | refused("tie_encoder_decoder", False)
)
"""The keys of every config.json."""


def base_keys(
    model_type: str, *, labels: bool = False, encoder_decoder: bool = False, several_labels: bool = False
) -> Keys:
    """The keys that all architectures share; `labels`: it has an output layer over labels, `several_labels`: of which
    an input may have several."""
    keys = COMMON | refused("model_type", model_type)
    keys |= refused("is_encoder_decoder", encoder_decoder, default=encoder_decoder)
    if not labels:
        return keys | irrelevant(OTHER_HEAD, "num_labels", id2label=None, problem_type=None)
    problems = (None, "single_label_classification", *([MULTI_LABEL] if several_labels else []))
    return keys | honoured(id2label=None, num_labels=NO_DEFAULT) | refused("problem_type", *problems, default=None)


MULTI_LABEL = "multi_label_classification"
"""The library's `problem_type`, and our task."""
TO_ACTIVATION = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu-tanh": "gelu_new",
    "silu": "silu",
    "tanh": "tanh",
    "none": "linear",
}
FROM_ACTIVATION = {theirs: ours for ours, theirs in TO_ACTIVATION.items()} | {
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu-tanh",
}


def our_activation(theirs: str, key: str) -> str:
    """Our name of an activation; refused where we have none."""
    if theirs not in FROM_ACTIVATION:
        raise ConfigError(key, f"expected one of {', '.join(FROM_ACTIVATION)}, got '{theirs}'")
    return FROM_ACTIVATION[theirs]


@dataclass(frozen=True)
class Sizes:
    """What a config.json needs beside the model's settings."""

    vocab: int
    """Tokens of the vocabulary; of the source's where there are two."""
    target_vocab: int
    labels: Sequence[str] = ()
    length: int = 512
    """Most tokens of a sequence."""


@dataclass(frozen=True)
class Ignored:
    """Tensors of files that the model does not consist of."""

    pattern: str
    """A regular expression of their names."""
    reason: str
    """What they are."""
    check: Callable[[Tensor, Json], bool] | None = None
    """Whether a tensor is that, where it is cheap to verify."""


UNTIED = "untied lm_head"
"""Key that an import adds to the settings: whether the output layer has another matrix than the embedding."""
AnyConfig = TypeVar("AnyConfig", bound=StackConfig)


@dataclass(frozen=True)
class Architecture(Generic[AnyConfig]):
    """One architecture of Hugging Face."""

    name: str
    class_name: str
    """Its class in transformers."""
    auto_class: str
    """The Auto class that loads it."""
    model_type: str
    shape: str
    """The shape of models that it can hold."""
    task: str
    """The task of an imported model."""
    supported: Callable[[AnyConfig], Supported]
    keys: Keys
    """What an import does with each key of its config.json."""
    settings: Mapping[str, str]
    """Our settings that are keys of its config.json → the keys."""
    fixed: Json
    """Our settings that an imported model has by its architecture."""
    more_keys: Callable[[AnyConfig, Sizes], Json]
    """Further keys of config.json."""
    parameter_names: Callable[[AnyConfig], ParameterNames]
    more_settings: Callable[[Json], Json] = lambda hf: {}
    """Our further settings, by config.json."""
    position_tables: Mapping[str, str] = field(default_factory=dict)
    """Its position tables that are constants by default → our parameter where positions are learned."""
    learned_positions_only: bool = False
    """Whether positions are always a learned table."""
    scales_embedding: bool = False
    """Whether it has a setting for embeddings times √width."""
    renames: tuple[tuple[str, str], ...] = ()
    """Names in files → names in `parameter_names`, as regular expressions."""
    ties: Callable[[Json], dict[str, str]] = lambda settings: {}
    """By its settings: tensors that are another under a second name → that other."""
    tied_head: tuple[str, ...] = ()
    """The tied tensors of the output layer, which may also have values of their own."""
    unused_if_untied: tuple[str, ...] = ()
    """Tensors that nothing is computed with where the output layer has values of its own."""
    ignored: tuple[Ignored, ...] = ()
    base_model_prefix: str = ""
    """What names begin with within the whole model, and not where only its stack was saved."""
    head_prefixes: tuple[str, ...] = ()
    """What names of the output layer begin with."""
    base_class: str | None = None
    """The class of its stack without output layer, where that is imported, too."""
    imported: bool = True
    """Whether folders of it are imported, or only written."""

    def to_config(self, config: AnyConfig, sizes: Sizes) -> Json:
        """Its config.json from our model's settings."""
        hf: Json = {key: setting(config, path) for path, key in self.settings.items()}
        if (key := self.settings.get("feedforward.activation")) is not None:
            hf[key] = TO_ACTIVATION[hf[key]]
        if sizes.labels:
            hf["id2label"] = dict(enumerate(sizes.labels))
            hf["label2id"] = {label: number for number, label in enumerate(sizes.labels)}
        return {**hf, **self.more_keys(config, sizes)}

    def from_config(self, hf: Json) -> Json:
        """Our model's settings from its config.json."""
        more = self.more_settings(hf)
        settings = {"kind": self.shape, **self.fixed, **{path: hf[key] for path, key in self.settings.items()}}
        if (key := self.settings.get("feedforward.activation")) is not None:
            settings["feedforward.activation"] = our_activation(hf[key], key)
        tree: Json = {}
        for path, value in {**settings, **more}.items():
            part, _, name = path.rpartition(".")
            (tree.setdefault(part, {}) if part else tree)[name] = value
        return tree

    def renamed(self, name: str) -> str:
        """The name that `parameter_names` has for a tensor of a file."""
        for pattern, replacement in self.renames:
            name = re.sub(pattern, replacement, name)
        return name

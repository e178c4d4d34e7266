"""What a setting needs beside it to act in a recipe of three steps, and values where its type tells none."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from walk_leaves import Leaf, Tree
from walk_situations import SMALL

Values = list[Any] | Callable[[Any, Any], list[Any]]


@dataclass(frozen=True)
class Hint:
    """Settings that stand beside a leaf, and values for it."""

    pattern: str
    base: Tree = field(default_factory=dict)
    values: Values | None = None
    """A list, or what makes one of the current value and the recipe."""
    every: bool | None = None
    """Whether each value must act."""


STARTED = "@started"
OTHER = "@other"
"""Names that stand for a run of the same recipe, and for one of another seed."""
SPLIT = r"data\.(?:train|valid|test)"


def _in(part: str, tree: Tree) -> Tree:
    """A tree below a key of the model."""
    return {"model": {part: tree}}


def _other_file(current: object, recipe: object) -> list[Any]:
    """The same columns of other examples, or a column with other contents."""
    if not isinstance(current, str):
        return ["more"] if current is None else [4]
    renamed = re.sub(r"^(train|valid|test)\b", "other", current)
    return [renamed] if renamed != current else ["more"]


def _other_format(current: object, recipe: Any) -> list[Any]:
    return ["csv" if recipe.data.train.file_format == "tsv" else "tsv"]


def _other_batching(current: object, recipe: Any) -> list[Any]:
    usual = recipe.task.batching(recipe.data).kind
    return [{"kind": kind} for kind in ("bucketed", "packed", "stream") if kind != usual]


def _other_best(current: object, recipe: Any) -> list[Any]:
    usual = "accuracy" if recipe.task.has_classes else "loss"
    return [name for name in ("loss", "accuracy", "bleu", "rouge_l", "exact_match") if name != usual]


def _other_attention(current: Any, recipe: object) -> list[Any]:
    return [{"kind": kind, **settings} for kind, settings in SMALL.items() if kind != current.kind]


def _other_head(current: object, recipe: Any) -> list[Any]:
    """The other kinds, and the usual one with settings of its own."""
    usual = "token" if recipe.task.kind == "tagging" else "pooled" if recipe.task.has_classes else "vocabulary"
    own = {"vocabulary": {"bias": True, "transform": "relu"}, "pooled": {"pooling": "max"}, "token": {}}
    found = [{"kind": kind, **settings} for kind, settings in own.items()]
    return [head for head in found if head["kind"] != usual or len(head) > 1]


def _other_header(current: object, recipe: Any) -> list[Any]:
    columns = recipe.data.train.columns
    return [not any(isinstance(column, str) for column in columns)]


HINTS = [
    Hint(r"tokenizer:word\.size", values=[12]),
    Hint(r"tokenizer:.*\.joint", base={"model": {"embedding": {"share": "none"}}}),
    Hint(r"train\.tokens_per_batch", values=[20]),
    Hint(
        r"model:encoder-decoder\.attention:(?:linformer\..*|bigbird\.added)",
        base=_in("decoder_attention", {"kind": "full"}),
    ),
    Hint(r"tokenizer:(?:bpe|unigram)\..*", base={"tokenizer": {"size": 290}}),
    Hint(r"tokenizer:(?:bpe|unigram)\.size", values=[270]),
    Hint(r"tokenizer:char\.size", values=[270]),
    Hint(SPLIT, values=[None]),
    Hint(r"data\.train", values=[{"limit": 5}]),
    Hint(r"data\.folder", values=["elsewhere"]),
    Hint(SPLIT + r"\.(?:file|source|target|text|images|labels)", values=_other_file),
    Hint(SPLIT + r"\.label", values=lambda current, _: [5 if isinstance(current, int) else "mark"]),
    Hint(SPLIT + r"\.image", values=["other"]),
    Hint(SPLIT + r"\.delimiter", values=[";"]),
    Hint(SPLIT + r"\.separator", values=[";"]),
    Hint(r"task:multi_label_classification\.threshold", values=[0.01, 0.99, "tuned"], every=False),
    Hint(SPLIT + r"\.header", values=_other_header),
    Hint(SPLIT + r"\.(?:hub|config|split)", values=["other"]),
    Hint(SPLIT + r"\.tags", values=["xpos"]),
    Hint(SPLIT + r"\.part", values=["50%-100%"]),
    Hint(SPLIT + r"\.limit", values=[5]),
    Hint(r"data\.train\.shuffle", base={"data": {"train": {"part": "0%-50%"}}}),
    Hint(r"data\.valid\.shuffle", base={"data": {"valid": {"part": "0%-50%"}}}),
    Hint(r"data\.test\.shuffle", base={"data": {"test": {"part": "0%-50%"}}}),
    Hint(r"data\.max_length", values=[5]),
    Hint(r"data\.overlong", base={"data": {"max_length": 5}}),
    Hint(r"data\.batching:.*", base={"train": {"tokens_per_batch": 40}}),
    Hint(r"data\.batching:stream\..*", base={"data": {"batching": {"context": 8}}}),
    Hint(r"data\.batching:stream\.measured_context", values=[5]),
    Hint(r"data\.batching:stream\.field", values=["source", "more"]),
    Hint(r"data\.batching", values=_other_batching),
    Hint(r"task:translation\.(?:unknown|dictionary)", base={"tokenizer": {"size": 9}}),
    Hint(r"task:translation\.dictionary", base={"task": {"unknown": "replace"}}, values=["words.tsv"]),
    Hint(r"task:translation\.reward.*", base={"start": {"run": STARTED}}),
    Hint(r"task:translation\.reward\..*", base={"task": {"reward": {"max_length": 6}}}),
    Hint(r"task:.*\.masking\.whole_words", base={"tokenizer": {"kind": "bpe", "size": 270}}),
    Hint(r"task:.*\.masking\.random", values=[0.2, 0.0]),
    Hint(r"task:.*\.augment", values=[{"flip": True}]),
    Hint(r"task:.*\.augment\.\w+", base={"task": {"augment": {"flip": True}}}),
    Hint(r"task:.*\.augment\.flip", base={"task": {"augment": {"shift": 1, "flip": False}}}),
    Hint(r"task:image_.*\.resample", base={"task": {"resize": "stretch"}}),
    Hint(r"task:image_.*\.(?:mean|deviation)", values=[[0.2]]),
    Hint(r"task:summarisation\.input_tokens", values=[4]),
    Hint(r"task", every=False),
    Hint(r"start", values=[{"run": STARTED}]),
    Hint(r"start\..*", base={"start": {"run": STARTED}}),
    Hint(r"start\.run", values=[OTHER]),
    Hint(r"start\.which", values=["last", "step-1"], every=False),
    Hint(r"start\.freeze", values=[["*norm*"], ["*.0.*"]]),
    Hint(r"train\.steps", values=[1]),
    Hint(r"train\.epochs", values=[0.1]),
    Hint(r"train\.minutes", values=[1e-9]),
    Hint(r"train\.(?:flops|tokens)", values=[1]),
    Hint(r"train\.optimiser:.*\.betas", values=[[0.5, 0.6]]),
    Hint(r"train\.optimiser:.*\.epsilon", values=[0.5]),
    Hint(r"train\.optimiser:.*\.decay_on", base={"train": {"optimiser": {"weight_decay": 0.5}}}),
    Hint(r"train\.optimiser:adafactor\.memory", values=[0.1]),
    Hint(r"train\.optimiser:adafactor\.least", values=[5.0]),
    Hint(r"train\.optimiser:muon\.(?:betas|epsilon)", base={"train": {"optimiser": {"decay_on": "all"}}}),
    Hint(r"train\.schedule:.*\.lr", values=[0.5]),
    Hint(r"train\.schedule:(?:cosine|linear)\.floor", base={"train": {"schedule": {"lr": 0.05}}}, values=[0.7]),
    Hint(r"train\.clip", values=[0.01]),
    Hint(r"train\.skip_bad", base={"train": {"schedule": {"lr": 1e30}, "clip": 0.0}}),
    Hint(r"train\.keep", base={"train": {"steps": 5, "save_every": 1}}, values=[1, 4]),
    Hint(r"train\.best", values=_other_best, base={"train": {"steps": 6, "save_every": 1, "schedule": {"lr": 0.3}}}),
    Hint(r"train\.patience", base={"train": {"steps": 6, "save_every": 1, "schedule": {"lr": 1e-30}}}, values=[1]),
    Hint(r"train\.average", base={"train": {"steps": 5, "save_every": 1}}, values=[2, 3]),
    Hint(r"train\.moving_average\..*", base={"train": {"moving_average": {}}}),
    Hint(r"train\.moving_average\.decay", base={"train": {"moving_average": {"warmup": False}}}),
    Hint(r"train\.track", values=[["tensorboard"]]),
    Hint(r"train\.expert_parallel", values=["auto", 2]),
    Hint(r"train\.(?:save_every|valid_every)", values=[1]),
    Hint(r"train\.valid_limit", base={"train": {"tokens_per_batch": 40}}, values=[1, 2]),
    Hint(r"data\.held_out", values=[0.5]),
    Hint(r"train\.residual_dtype", base={"train": {"precision": "bfloat16"}}),
    Hint(r"train\.log_every", values=[2], base={"train": {"steps": 4}}),
    Hint(r"model:.*attention:.*\.(?:head|value)_width", values=[2, 8]),
    Hint(r"model:.*\.attention:bigbird\..*", base=_in("attention", SMALL["bigbird"])),
    Hint(r"model:.*decoder_attention:bigbird\..*", base=_in("decoder_attention", SMALL["bigbird"])),
    Hint(r"model:.*[._]attention:local\.block|model:.*attention:window\.reach", values=[1, 2]),
    Hint(r"model:.*\.attention:linformer\..*", base=_in("attention", SMALL["linformer"])),
    Hint(r"model:.*\.attention:linformer\.length", values=[80]),
    Hint(r"model:.*\.attention:memory-compressed\..*", base=_in("attention", SMALL["memory-compressed"])),
    Hint(
        r"model:.*\.decoder_attention:memory-compressed\..*", base=_in("decoder_attention", SMALL["memory-compressed"])
    ),
    Hint(r"model:.*attention:memory-compressed\.block", values=[4, 2]),
    Hint(r"model:vision.*\.attention.*", base={"model": {"patch": 2}}),
    Hint(r"model:(?!lstm|gnmt|deep)[^.]*\.attention", values=_other_attention),
    Hint(r"model:.*attention:alternating\.kinds", values=[[{"kind": "full"}, {"kind": "window", "reach": 1}]]),
    Hint(r"model:.*\.position:t5\..*", base=_in("position", {"buckets": 6, "farthest": 8})),
    Hint(r"model:.*\.decoder_position:t5\..*", base=_in("decoder_position", {"buckets": 6, "farthest": 8})),
    Hint(r"model:.*position:t5\.(?:buckets|farthest)", values=[10, 16]),
    Hint(r"model:.*position:learned\.length", values=[80, 600]),
    Hint(r"model:.*position:(?:relative|tree)\.clip", values=[1, 2]),
    Hint(r"model:.*norm:.*\.epsilon", values=[0.5]),
    Hint(r"model:.*norm:.*\.epsilon_inside", base=_in("norm", {"epsilon": 0.5})),
    Hint(r"model:.*norm:layer\.root_deviation", base=_in("norm", {"epsilon_inside": False})),
    Hint(r"model:.*\.feedforward:experts\..*", base=_in("feedforward", {"experts": 4})),
    Hint(r"model:.*\.experts:experts\..*", base=_in("experts", {"experts": 4})),
    Hint(r"model:.*\.feedforward:experts\.load", base=_in("feedforward", {"noise": True})),
    Hint(r"model:.*\.experts:experts\.load", base=_in("experts", {"noise": True})),
    Hint(r"model:.*experts\.capacity", values=[0.3]),
    Hint(r"model:.*embedding\.factor", values=[4]),
    Hint(r"model:.*embedding\.same", values=[[[8, 9]]]),
    Hint(r"model:.*vocabulary\.never", values=[[9]]),
    Hint(r"model:.*vocabulary\.transform_epsilon", base=_in("head", {"transform": "tanh"}), values=[0.5]),
    Hint(r"model:lstm-seq2seq\.embedding\..*", base=_in("embedding", {"share": "inputs"})),
    Hint(r"model:(?:gnmt|deep-att)\.embedding_width", base=_in("embedding", {"share": "none"})),
    Hint(r"model:.*linformer\.projected", values=[2]),
    Hint(r"model:.*convs2s\.stages", values=[[{"layers": 2, "hidden": 6}]]),
    Hint(r"model:.*\.image", values=[4, 12]),
    Hint(r"model:.*\.patch", values=[2]),
    Hint(r"model:.*initialise:normal\.deviation", values=[0.5]),
    Hint(r"model:.*\.dropout\.locked", base=_in("dropout", {"between": 0.5, "output": 0.5, "embedding": 0.5})),
    Hint(r"model:(?:vision|encoder|decoder|recurrent|recurrent-encoder|window-\w+)\.head", values=_other_head),
    Hint(SPLIT + r"\.format", values=_other_format),
    Hint(r"model:.*\.(?:decoder_position|decoder_attention)", every=False),
    Hint(r"model:.*\.feedforward:experts\.chosen", values=[1]),
    Hint(
        r"model:(?:vision-)?encoder-decoder\.head|model:(?:lstm-seq2seq|gnmt|deep-att|bytenet|convs2s)\.head",
        values=[{"bias": True, "transform": "relu"}, {"bias": False}],
        every=False,
    ),
]


def hints_for(leaf: Leaf) -> list[Hint]:
    """Those whose pattern fits the leaf."""
    return [hint for hint in HINTS if re.fullmatch(hint.pattern, leaf.name)]


@dataclass(frozen=True)
class Exempt:
    """A leaf that may change nothing that the walk measures."""

    pattern: str
    why: str
    tried: bool = True
    """Whether it is tried all the same: where it acts or is refused, it is no exception."""


EXCEPTIONS = [
    Exempt(r"defaults", "recipes of this test are complete; tests/run/test_defaults_runs.py has others", tried=False),
    Exempt(r"plugins.*", "files with the user's own code; see tests/run/test_plugins.py", tried=False),
    Exempt(r"train\.cuda_graph", "needs a GPU; tests/run/test_captured_steps.py compares the steps", tried=False),
    Exempt(r"train\.compile", "the same results, faster; tests/train/test_compiling.py compares them", tried=False),
    Exempt(r"train\.parallel", "needs several processes; tests/train/test_parallel.py starts them", tried=False),
    Exempt(r"train\.expert_parallel", "needs several processes; tests/train/test_expert_parallel.py starts them"),
    Exempt(SPLIT + r"\.(?:hub|config|split)", "needs the library `datasets`; see tests/data/test_hub.py", tried=False),
    Exempt(r"train\.track", "needs TensorBoard or trackio; see tests/train/test_log.py", tried=False),
    Exempt(r"train\.best", "two metrics may choose the same checkpoint; see tests/run/test_best.py"),
    Exempt(r"train\.device", "`auto` is `cpu` on a machine without a GPU, where `cuda` is refused"),
    Exempt(r"train\.residual_dtype", "without a GPU, `auto` is `float32`"),
    Exempt(r"train\.precision", "`auto` is `float32` where a measurement finds it faster"),
    Exempt(r"data\.folder", "the embedded corpus has no folder, and every other recipe has one by default: its own"),
    Exempt(
        r"model:(?!encoder-decoder|lstm|gnmt|deep|bytenet|convs2s)[^.]*\.embedding\.share",
        "with one text, `all` is `output`, and `inputs` is `none`",
    ),
]
"""All others act or are refused."""


def exempt(leaf: Leaf) -> Exempt | None:
    """Why a leaf need not act, if it is an exception."""
    return next((each for each in EXCEPTIONS if re.fullmatch(each.pattern, leaf.name)), None)

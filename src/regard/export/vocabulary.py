"""The vocabulary of a Hugging Face folder: the tokenizer as it is, under numbers that begin with our special tokens.

Text is cut as `AutoTokenizer` cuts it; only the numbers change, and the rows of the model's tables with them, there and
back. A token of ours that the other model does not have is never written and takes no probability.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer as Core
from torch import Tensor

from regard.data.numbering import NONE, Numbering
from regard.data.pipeline import describe, known_pipelines
from regard.data.special import BOS, CLS, EOS, MASK, PAD, SEP, SPECIAL_TOKENS, UNK
from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_file import any_core, find_problem
from regard.errors import DataError
from regard.export.conversion import converted, read_small, read_table, tokenizer_settings

TOKENIZER = "tokenizer.json"
KEYS = {PAD: "pad", UNK: "unk", BOS: "bos", EOS: "eos", MASK: "mask", SEP: "sep", CLS: "cls"}
USUAL = {
    PAD: ("[PAD]", "<pad>"),
    UNK: ("[UNK]", "<unk>"),
    BOS: ("<s>",),
    EOS: ("</s>", "<|endoftext|>"),
    MASK: ("[MASK]", "<mask>"),
    SEP: ("[SEP]",),
    CLS: ("[CLS]",),
}
"""What special tokens are called where a folder does not say."""


def read_vocabularies(folder: Path, settings: dict[str, Any], shape: str, sizes: Sequence[int]) -> list[Tokenizer]:
    """The tokenizer of a folder, or the source's and the target's; `sizes` are the rows of the model's tables."""
    if not (folder / TOKENIZER).is_file():
        cores = converted(folder, str(settings.get("model_type")), sizes[0])
        given, pairs = tokenizer_settings(folder), zip(cores, [sizes[0], sizes[-1]], strict=False)
        return [
            Tokenizer(core, _numbering(folder, core, settings, given, shape, size, beyond=True)) for core, size in pairs
        ]
    places = [folder, folder / "target"] if (folder / "target" / TOKENIZER).is_file() else [folder]
    if len(sizes) > len(places):
        raise DataError(folder, f"has two vocabularies; expected the target's in target/{TOKENIZER}")
    return [_read(place, settings, shape, size) for place, size in zip(places, [sizes[0], sizes[-1]], strict=False)]


def _read(folder: Path, settings: dict[str, Any], shape: str, size: int) -> Tokenizer:
    file = folder / TOKENIZER
    tree = read_table(file)
    core = any_core(file, read_small(file))
    if find_problem({**tree, "post_processor": None}) or describe(core) not in known_pipelines():
        return Tokenizer(core, _numbering(folder, core, settings, tokenizer_settings(folder), shape, size))
    core.post_processor = None  # ours, with what an export put around texts
    tokenizer = Tokenizer(core)
    if tokenizer.vocab_size != size:
        raise DataError(file, f"has {tokenizer.vocab_size:,} tokens, but the model's embedding has {size:,} rows")
    return tokenizer


def _numbering(
    folder: Path,
    core: Core,
    settings: dict[str, Any],
    given: dict[str, Any],
    shape: str,
    size: int,
    beyond: bool = False,
) -> Numbering:
    """Where our special tokens stand in another vocabulary; with `beyond`, it may have pieces the model has not."""
    largest = max(core.get_vocab().values(), default=0)
    if largest >= size and not beyond:
        raise DataError(folder, f"its tokenizer has {largest + 1:,} tokens, its model's embedding {size:,} rows")
    before, after = around(core)
    special = _specials(core, settings, given, shape, size, after)
    if special[BOS] == NONE and shape != "encoder":
        raise DataError(folder, "neither config.json nor tokenizer_config.json says with which token its texts begin")
    tidy = given.get("clean_up_tokenization_spaces") is True and type(core.model).__name__ != "BPE"
    numbering = Numbering(special, size, tidy=tidy)
    if shape != "encoder":  # what stands before texts that are written, or read by a pair, is the task's to say
        return numbering
    first = tuple(numbering.to_ours(before))
    if any(own >= len(SPECIAL_TOKENS) for own in first):
        raise DataError(folder, f"its tokenizer puts '{core.decode(before, False)}' before texts, no special token")
    return replace(numbering, first=first)


def _specials(
    core: Core,
    settings: dict[str, Any],
    given: dict[str, Any],
    shape: str,
    size: int,
    after: list[int],
) -> tuple[int, ...]:
    """Their ids of our special tokens: the begin is what writing starts with, the end what stands after texts."""
    special = [_special(core, settings, given, own, size) for own in range(len(SPECIAL_TOKENS))]
    starts = _row(settings.get("decoder_start_token_id"), size)
    if shape == "encoder":
        special[EOS] = next((number for number in (*after[-1:], special[SEP]) if number != NONE), special[EOS])
    elif shape == "encoder-decoder" and starts != NONE:
        special[BOS] = starts
    elif special[BOS] == NONE:
        special[BOS] = special[EOS if shape == "decoder" else PAD]
    return tuple(special)


def around(core: Core) -> tuple[list[int], list[int]]:
    """The ids that a tokenizer puts before and after a text."""
    whole, text = core.encode("a", add_special_tokens=True).ids, core.encode("a", add_special_tokens=False).ids
    places = (place for place in range(len(whole)) if whole[place : place + len(text)] == text)
    start = next(places, None)
    return ([], []) if start is None else (whole[:start], whole[start + len(text) :])


def _special(core: Core, settings: dict[str, Any], given: dict[str, Any], own: int, size: int) -> int:
    """Their id of one of our special tokens: as the model says, as the tokenizer says, or as it is usually called."""
    number: object = settings.get(f"{KEYS[own]}_token_id")
    said = number[0] if isinstance(number, list) and number else number
    name = given.get(f"{KEYS[own]}_token")
    name = name.get("content") if isinstance(name, dict) else name
    names = (name,) if isinstance(name, str) else USUAL[own]
    found = (_row(one, size) for one in (said, *map(core.token_to_id, names)))
    return next((row for row in found if row != NONE), NONE)


def _row(number: object, size: int) -> int:
    """A number that is a row of a table, or none."""
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < size else NONE


def our_rows(table: Tensor, numbering: Numbering) -> Tensor:
    """A table with one row a token, in our order; zeros for tokens it does not have."""
    index = torch.tensor(numbering.theirs)
    found = table[index.clamp(min=0)]
    found[index == NONE] = 0
    return found


def their_rows(table: Tensor, numbering: Numbering) -> Tensor:
    """A table in our order as the other model has it."""
    return table[torch.tensor(numbering.ours)]


def renumbered(
    config: Any,  # noqa: ANN401
    weights: dict[str, Tensor],
    rows: Callable[[Tensor, Numbering], Tensor],
    reads: Numbering,
    writes: Numbering,
) -> dict[str, Tensor]:
    """The weights of a model, those that have one row a token in another order."""
    head = ("head.linear.weight", "head.bias") if writes_tokens(config) else ()
    named = [name for name in weights if name.endswith("embedding.table.weight") or name in head]
    return {**weights, **{name: rows(weights[name], reads if "source" in name else writes) for name in named}}


def writes_tokens(config: Any) -> bool:  # noqa: ANN401
    """Whether a model's output layer is over the vocabulary."""
    return config.head is None or config.head.kind == "vocabulary"

"""Somebody else's byte-level vocabulary as one of ours: the special tokens first, the others after them in order.

The same text is cut into the same pieces; only their numbers change, and the rows of the embedding with them.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.special import BOS, EOS, MASK, PAD, SPECIAL_TOKENS, UNK
from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_file import LARGEST_FILE
from regard.errors import DataError

NEVER = -1e4
"""Score of a token that their model does not know: it is never written, and takes no probability."""
TOKENIZER = "tokenizer.json"


@dataclass(frozen=True)
class Renumbering:
    """Our tokens' numbers in their vocabulary; −1 for those it does not have."""

    theirs: tuple[int, ...]

    @property
    def changes(self) -> bool:
        """Whether any number differs."""
        return self.theirs != tuple(range(len(self.theirs)))

    def rows(self, table: Tensor) -> Tensor:
        """A table with one row a token, in our order; zeros for tokens it does not have."""
        index = torch.tensor(self.theirs)
        found = table[index.clamp(min=0)]
        found[index < 0] = 0
        return found

    def bias(self, bias: Tensor | None) -> Tensor:
        """The output layer's bias, which keeps unknown tokens from ever being written."""
        index = torch.tensor(self.theirs)
        found = torch.zeros(len(self.theirs)) if bias is None else self.rows(bias)
        return found.masked_fill(index < 0, NEVER)


def read_vocabulary(folder: Path, settings: dict[str, Any], size: int) -> tuple[Tokenizer, Renumbering]:
    """The tokenizer of a Hugging Face folder, and where its tokens stand in a table of `size` rows."""
    file = folder / TOKENIZER
    if not file.is_file():
        raise DataError(
            folder,
            f"has no {TOKENIZER}; write one with transformers: AutoTokenizer.from_pretrained(…).save_pretrained(…)",
        )
    tree = read_table(file)
    own = _as_ours(tree)
    if own is not None:
        tokenizer = _load(folder, own)
        return tokenizer, Renumbering(_padded(range(tokenizer.vocab_size), size, file))
    return _byte_level(folder, tree, settings, size)


def read_table(file: Path) -> dict[str, Any]:
    """The table in a JSON file that anyone may have written."""
    if file.stat().st_size > LARGEST_FILE:
        raise DataError(file, f"more than {LARGEST_FILE:,} bytes; is this the right file?")
    try:
        tree = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(file, f"not JSON: {error}") from None
    if not isinstance(tree, dict):
        raise DataError(file, "expected a table")
    return tree


def _padded(numbers: range, size: int, file: Path) -> tuple[int, ...]:
    if len(numbers) != size:
        raise DataError(file, f"has {len(numbers):,} tokens, but the model's embedding has {size:,} rows")
    return tuple(numbers)


def _as_ours(tree: dict[str, Any]) -> dict[str, Any] | None:
    """The tree without what an export put around texts, where the tokenizer was ours."""
    specials = [(token["id"], token["content"]) for token in tree.get("added_tokens", [])]
    return {**tree, "post_processor": None} if specials == list(enumerate(SPECIAL_TOKENS)) else None


def _byte_level(
    folder: Path, tree: dict[str, Any], settings: dict[str, Any], size: int
) -> tuple[Tokenizer, Renumbering]:
    """GPT-2's way of cutting text, and that of all who took it over."""
    model, cut = tree.get("model", {}), tree.get("pre_tokenizer") or {}
    if model.get("type") != "BPE" or cut.get("type") != "ByteLevel" or tree.get("normalizer") is not None:
        raise DataError(
            folder / TOKENIZER,
            f"regard reads byte-level BPE (as GPT-2 has it) and its own tokenizers, got {model.get('type')} with "
            f"{cut.get('type')}; models with another vocabulary cannot be imported",
        )
    special = {token["content"] for token in tree.get("added_tokens", []) if token.get("special")}
    vocabulary = {token: number for token, number in model["vocab"].items() if token not in special}
    ordered = sorted(vocabulary, key=vocabulary.__getitem__)
    known = {PAD: "pad_token_id", BOS: "bos_token_id", EOS: "eos_token_id", UNK: "unk_token_id", MASK: "mask_token_id"}
    starts = settings.get("decoder_start_token_id")
    numbers = [settings.get(known.get(place, "")) for place in range(len(SPECIAL_TOKENS))]
    numbers[BOS] = starts if starts is not None else numbers[BOS]
    theirs = [number if isinstance(number, int) and number < size else -1 for number in numbers]
    ours = {token: number for number, token in enumerate([*SPECIAL_TOKENS, *ordered])}
    fixed = {
        **tree,
        "added_tokens": [_special(number, token) for number, token in enumerate(SPECIAL_TOKENS)],
        "post_processor": None,
        "pre_tokenizer": {**cut, "add_prefix_space": False},
        "truncation": None,
        "padding": None,
        "model": {**model, "vocab": ours, "unk_token": SPECIAL_TOKENS[UNK], **dict.fromkeys(EMPTY)},
    }
    if cut.get("add_prefix_space"):
        raise DataError(folder / TOKENIZER, "a tokenizer with add_prefix_space cannot be imported")
    return _load(folder, fixed), Renumbering((*theirs, *(vocabulary[token] for token in ordered)))


EMPTY = ("dropout", "continuing_subword_prefix", "end_of_word_suffix")


def _special(number: int, token: str) -> dict[str, Any]:
    options = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": token, **options, "special": True}


def _load(folder: Path, tree: dict[str, Any]) -> Tokenizer:
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / TOKENIZER
        file.write_text(json.dumps(tree, ensure_ascii=False), encoding="utf-8")
        try:
            return Tokenizer.load(file)
        except DataError as error:
            raise DataError(folder / TOKENIZER, str(error).partition(": ")[2]) from None

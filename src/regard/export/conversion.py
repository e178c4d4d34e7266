"""A tokenizer of the `tokenizers` library from the older files of Hugging Face folders, none of which is a program.

vocab.txt                             BERT's pieces of words, one a line
vocab.json, merges.txt                GPT-2's pairs of bytes
source.spm, target.spm, vocab.json    Marian's: two SentencePiece models with the numbers of one vocabulary
spiece.model, tokenizer.model         T5's and Llama's SentencePiece models
"""

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Core
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from regard.data.sentencepiece import UNIGRAM, SentencePieceModel, merges, read_sentencepiece
from regard.data.tokenizer_file import LARGEST_FILE
from regard.errors import DataError

SENTENCEPIECES = ("spiece.model", "tokenizer.model", "sentencepiece.bpe.model")
HIDDEN = "\0"
"""Stands before pieces that a text on this side is never cut into; no text holds it once it is normalised."""
SENTINELS = 100
"""Tokens that T5 puts in the places of hidden passages, where its folder does not say how many."""


def converted(folder: Path, model: str, size: int) -> list[Core]:
    """The tokenizer of a folder without tokenizer.json, or the source's and the target's.

    `model` is the kind of model in config.json, `size` the rows of its table.
    """
    given = tokenizer_settings(folder)
    if (folder / "source.spm").is_file() and (folder / "target.spm").is_file():
        return [_marian(folder, side) for side in ("source", "target")]
    if (folder / "vocab.txt").is_file():
        return [_wordpiece(folder / "vocab.txt", given)]
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        return [_byte_level(folder)]
    for name in SENTENCEPIECES:
        if (folder / name).is_file():
            return [_sentencepiece(read_sentencepiece(folder / name), given, model, size)]
    raise DataError(
        folder,
        "has no tokenizer.json, nor vocab.txt, vocab.json with merges.txt or a SentencePiece model to make one from; "
        "write one where transformers knows the tokenizer: AutoTokenizer.from_pretrained(…).save_pretrained(…)",
    )


def tokenizer_settings(folder: Path) -> dict[str, Any]:
    """What tokenizer_config.json and special_tokens_map.json say; the first has the last word."""
    found: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (folder / name).is_file():
            found |= {key: value for key, value in read_table(folder / name).items() if value is not None}
    return found


def read_table(file: Path) -> dict[str, Any]:
    """The table in a JSON file that anyone may have written."""
    try:
        tree = json.loads(read_small(file))
    except (ValueError, RecursionError) as error:
        raise DataError(file, f"not JSON: {error}") from None
    if not isinstance(tree, dict):
        raise DataError(file, "expected a table")
    return tree


def read_small(file: Path) -> str:
    """The text of a file that is no larger than vocabularies are."""
    if file.stat().st_size > LARGEST_FILE:
        raise DataError(file, f"more than {LARGEST_FILE:,} bytes; is this the right file?")
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(file, f"byte {error.start} is not UTF-8") from None


def _wordpiece(file: Path, given: dict[str, Any]) -> Core:
    """BERT's: text is cleaned and, unless its settings say no, in lower case and without accents."""
    lines = read_small(file).removesuffix("\n").split("\n")
    numbers = {line: number for number, line in enumerate(lines)}
    unknown, begin, end = (_name(given, key, f"[{key.upper()}]") for key in ("unk", "cls", "sep"))
    if missing := [token for token in (unknown, begin, end) if token not in numbers]:
        raise DataError(file, f"has no '{missing[0]}', which stands in every text of a BERT")
    core = Core(models.WordPiece(numbers, unk_token=unknown))
    core.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=bool(given.get("tokenize_chinese_chars", True)),
        strip_accents=given.get("strip_accents"),
        lowercase=bool(given.get("do_lower_case", True)),
    )
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece(prefix="##")
    named = [_name(given, key, f"[{key.upper()}]") for key in ("pad", "unk", "cls", "sep", "mask")]
    core.add_special_tokens([token for token in named if token in numbers])
    core.post_processor = processors.BertProcessing((end, numbers[end]), (begin, numbers[begin]))
    return core


def _byte_level(folder: Path) -> Core:
    """GPT-2's: pairs of bytes, the most frequent first."""
    numbers = read_table(folder / "vocab.json")
    lines = read_small(folder / "merges.txt").splitlines()
    pairs = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    if any(len(pair) != 2 for pair in pairs):
        raise DataError(folder / "merges.txt", "expected two pieces a line, one space apart")
    core = Core(models.BPE(numbers, pairs))  # type: ignore[arg-type]
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([token for token in ("<|endoftext|>",) if token in numbers])
    return core


def _sentencepiece(found: SentencePieceModel, given: dict[str, Any], model: str, size: int) -> Core:
    """T5's or Llama's: T5 has special tokens after its pieces and an end after its texts, Llama a beginning."""
    if model != "t5":
        core = found.core()
        begin = _name(given, "bos", "<s>")
        if model == "llama" and given.get("add_bos_token", True) and (number := core.token_to_id(begin)) is not None:
            core.post_processor = processors.TemplateProcessing(f"{begin} $A", None, [(begin, number)])
        return core
    count = min(int(given.get("extra_ids", SENTINELS)), max(0, size - len(found.subwords)))
    core = found.core([f"<extra_id_{number}>" for number in reversed(range(count))])
    end = _name(given, "eos", "</s>")
    if (number := core.token_to_id(end)) is not None:
        core.post_processor = processors.TemplateProcessing(f"$A {end}", None, [(end, number)])
    return core


def _marian(folder: Path, side: str) -> Core:
    """One side of a Marian: cut by its own model, numbered as both sides are; what has no number is unknown."""
    found = read_sentencepiece(folder / f"{side}.spm")
    own = folder / "target_vocab.json"
    table = read_table(own if side == "target" and own.is_file() else folder / "vocab.json")
    names = sorted(table, key=table.__getitem__)
    if [table[name] for name in names] != list(range(len(names))) or "<unk>" not in table:
        raise DataError(
            folder / "vocab.json", "expected each piece with its number, 0, 1, 2, …, and '<unk>' among them"
        )
    scores = {one.text: one.score for one in found.subwords}
    named = [name for name in names if name in ("</s>", "<unk>", "<pad>") or (name[:2] + name[-2:]) == ">><<"]
    beyond = [piece for piece in scores if piece not in table]
    seen = scores.keys() | set(named)
    listed = [name if name in seen else HIDDEN + name for name in [*names, *beyond]]
    core = Core(_numbered(found, listed, scores, table["<unk>"]))
    plain = found.core()
    core.normalizer, core.pre_tokenizer = plain.normalizer, plain.pre_tokenizer
    core.decoder = decoders.Sequence([decoders.Replace(HIDDEN, ""), plain.decoder])
    core.add_special_tokens([name for name in named if name[:2] != ">>"])
    core.add_tokens([name for name in named if name[:2] == ">>"])
    if "</s>" in table:
        core.post_processor = processors.TemplateProcessing("$A </s>", None, [("</s>", table["</s>"])])
    return core


def _numbered(found: SentencePieceModel, listed: list[str], scores: dict[str, float], unknown: int) -> models.Model:
    if found.algorithm == UNIGRAM:
        return models.Unigram([(name, scores.get(name, 0.0)) for name in listed], unk_id=unknown)
    numbers = {name: number for number, name in enumerate(listed)}
    return models.BPE(numbers, merges(found.subwords), unk_token="<unk>", fuse_unk=True)


def _name(given: dict[str, Any], key: str, usual: str) -> str:
    """The name of a special token, which may stand in a table with its manners."""
    value = given.get(f"{key}_token", usual)
    return str(value.get("content", usual) if isinstance(value, dict) else value)

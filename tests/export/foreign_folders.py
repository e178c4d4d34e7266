"""Tiny folders as transformers writes them: each layout with the kind of tokenizer that its published models have."""

import json
import struct
from pathlib import Path
from typing import Any

import torch
import transformers
from tiny import ENGLISH, GERMAN
from tokenizers import Tokenizer as Core
from tokenizers import models, pre_tokenizers, trainers
from torch import nn

TEXTS = (ENGLISH + GERMAN) * 4
ODD = [
    "",
    " ",
    "a\tb\n\nc",
    "Größe 🙂",
    " two  spaces ",
    "naïve ﬁsh",
    "[MASK] </s> <|endoftext|>",
    "don't .",
    "世界",
    "İı",
]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def charsmap(replaced: dict[str, str]) -> bytes:
    """SentencePiece's compiled table of replacements: the size of a double array, the array, the replacements."""
    tree: dict[int, Any] = {}
    for key, value in replaced.items():
        node = tree
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[0] = value
    units, texts, nodes = {}, b"", [(0, tree)]
    for number, (place, node) in enumerate(nodes):
        base = 256 * (number + 1)
        units[place] = units.get(place, 0) | (place ^ base) << 10
        for byte, child in node.items():
            if byte == 0:
                units[place] |= 1 << 8
                units[base], texts = len(texts) | 1 << 31, texts + child.encode() + b"\0"
            else:
                units[base ^ byte] = byte
                nodes.append((base ^ byte, child))
    size = 256 * (len(nodes) + 1)
    array = struct.pack(f"<{size}I", *(units.get(place, 0) for place in range(size)))
    return struct.pack("<I", len(array)) + array + texts


REPLACED = charsmap({"\t": " ", "\n": " ", "ﬁ": "fi", "…": "..."})


def trained(model: models.Model, trainer: trainers.Trainer, words: pre_tokenizers.PreTokenizer) -> Any:
    core = Core(model)
    core.pre_tokenizer = words
    core.train_from_iterator(TEXTS, trainer)
    return json.loads(core.to_str())["model"]


def pieces() -> list[tuple[str, float]]:
    """A unigram vocabulary as T5 has it."""
    trainer = trainers.UnigramTrainer(vocab_size=120, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>",
                                      show_progress=False)  # fmt: skip
    found = trained(models.Unigram(), trainer, pre_tokenizers.Metaspace())["vocab"]
    rounded = [(piece, round(64 * score) / 64) for piece, score in found]  # the trainer's last digits differ each time
    return rounded[:3] + sorted(rounded[3:], key=lambda item: (-item[1], item[0]))


def pairs(special: list[str], words: pre_tokenizers.PreTokenizer, **more: Any) -> tuple[dict[str, int], list[Any]]:
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=special, show_progress=False, **more)
    found = trained(models.BPE(), trainer, words)
    return found["vocab"], [tuple(pair) for pair in found["merges"]]


def bert_tokenizer(**more: Any) -> Any:
    special = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=120, special_tokens=special, show_progress=False)
    vocab = trained(models.WordPiece(unk_token="[UNK]"), trainer, pre_tokenizers.BertPreTokenizer())["vocab"]
    lower = sorted(
        {token.lower() if token not in special else token for token in vocab}, key=lambda t: vocab.get(t, 999)
    )
    return transformers.BertTokenizer(vocab={token: number for number, token in enumerate(lower)}, **more)


def t5_tokenizer() -> Any:
    extra = [(f"<extra_id_{number}>", 0.0) for number in reversed(range(100))]
    return transformers.T5Tokenizer(vocab=[*pieces(), *extra], _spm_precompiled_charsmap=REPLACED)


def llama_tokenizer() -> Any:
    words = pre_tokenizers.Metaspace(split=False)
    vocab, merges = pairs(["<unk>", "<s>", "</s>", *BYTES], words)
    return transformers.LlamaTokenizer(vocab=vocab, merges=merges)


def gpt2_tokenizer() -> Any:
    vocab, merges = pairs([], pre_tokenizers.ByteLevel(add_prefix_space=False),
                          initial_alphabet=pre_tokenizers.ByteLevel.alphabet())  # fmt: skip
    return transformers.GPT2Tokenizer(vocab={**vocab, "<|endoftext|>": len(vocab)}, merges=merges)


TOKENIZERS = {"BERT": bert_tokenizer, "T5": t5_tokenizer, "Llama": llama_tokenizer, "GPT-2": gpt2_tokenizer}
STACK = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
BERT = {**STACK, "max_position_embeddings": 64}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "BERT": ("bert", "BertForSequenceClassification", {**BERT, "num_labels": 3}),
    "masked BERT": ("bert", "BertForMaskedLM", BERT),
    "T5": ("t5", "T5ForConditionalGeneration", {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
                                                "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}),
    "Llama": ("llama", "LlamaForCausalLM", {**STACK, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2}),
    "GPT-2": ("gpt2", "GPT2LMHeadModel", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 120}),
    "Marian": ("marian", "MarianMTModel", {
        "d_model": 32, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 90,
        "activation_function": "swish", "scale_embedding": True, "eos_token_id": 0, "forced_eos_token_id": None,
    }),
}  # fmt: skip


def random_model(name: str, vocab: int, **more: Any) -> nn.Module:
    """A model with random numbers everywhere, its tables of positions apart."""
    kind, architecture, settings = MODELS[name]
    config = transformers.AutoConfig.for_model(kind, **{**settings, "vocab_size": vocab, **more})
    torch.manual_seed(3)
    model = getattr(transformers, architecture)(config).eval()
    for key, weight in model.named_parameters():
        if "embed_positions" not in key:
            noise = 0.2 * torch.randn(weight.shape)
            weight.data.copy_(noise if weight.dim() > 1 else weight.data + noise)
    return model


def saved(name: str, folder: Path) -> tuple[Any, Any]:
    """A folder with a tokenizer.json; its model and its tokenizer."""
    tokenizer = TOKENIZERS[name.removeprefix("masked ")]()
    tokenizer.save_pretrained(folder)
    named = {"bos_token_id": len(tokenizer) - 1, "eos_token_id": len(tokenizer) - 1} if name == "GPT-2" else {}
    spare = 5 if name == "T5" else 0  # published T5s have rows without a token
    model = random_model(name, len(tokenizer) + spare, **named)
    model.save_pretrained(folder)  # type: ignore[operator]
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def sentencepiece(subwords: list[tuple[str, float, int]], algorithm: int = 1, **normaliser: Any) -> bytes:
    """A SentencePiece model written by the protocol's own classes."""
    from transformers.convert_slow_tokenizer import import_protobuf

    proto = import_protobuf().ModelProto()
    for text, score, kind in subwords:
        proto.pieces.add(piece=text, score=score, type=kind)
    proto.trainer_spec.model_type = algorithm
    proto.trainer_spec.byte_fallback = any(kind == 6 for _, _, kind in subwords)
    for name, value in normaliser.items():
        setattr(proto.normalizer_spec, name, value)
    return proto.SerializeToString()


def typed(found: list[tuple[str, float]]) -> list[tuple[str, float, int]]:
    """Pieces with their kinds: unknown, control, bytes, normal."""
    kinds = {"<unk>": 2, "<pad>": 3, "<s>": 3, "</s>": 3, **dict.fromkeys(BYTES, 6)}
    return [(text, score, kinds.get(text, 1)) for text, score in found]


def without_json(name: str, folder: Path) -> None:
    """Takes the tokenizer.json out of a folder and puts the older files of its layout into it."""
    tree = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "tokenizer.json").unlink()
    if name == "BERT":
        (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tree["vocab"]))
    elif name == "T5":
        found = [(text, score) for text, score in tree["vocab"] if not text.startswith("<extra_id_")]
        model = sentencepiece(typed(found), precompiled_charsmap=REPLACED)
        (folder / "spiece.model").write_bytes(model)
    elif name == "Llama":
        scores = [(token, -float(number)) for token, number in tree["vocab"].items()]
        model = sentencepiece(typed(scores), 2, remove_extra_whitespaces=False)
        (folder / "tokenizer.model").write_bytes(model)
    else:
        (folder / "vocab.json").write_text(json.dumps(tree["vocab"]))
        (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in tree["merges"]))


ENGLISH_PIECES = ["▁the", "▁cat", "▁", "t", "h", "e", "c", "a", "s", "▁s", "ee"]
GERMAN_PIECES = ["▁die", "▁katze", "▁", "d", "i", "e", "k", "a", "t", "z", "s", "▁sah", "h"]


def marian(folder: Path) -> nn.Module:
    """A folder as Opus-MT's are: two SentencePiece models, one vocabulary, the beginning of writing its padding."""
    folder.mkdir(exist_ok=True)
    names = [*dict.fromkeys(["</s>", "<unk>", *ENGLISH_PIECES[:-1], *GERMAN_PIECES, ">>de<<"]), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
    for side, found in (("source", ENGLISH_PIECES), ("target", GERMAN_PIECES)):
        scored = [
            ("<unk>", 0.0),
            ("<s>", 0.0),
            ("</s>", 0.0),
            *((text, -2.0 - place / 8) for place, text in enumerate(found)),
        ]
        (folder / f"{side}.spm").write_bytes(sentencepiece(typed(scored), precompiled_charsmap=REPLACED))
    pad = len(names) - 1
    model = random_model(
        "Marian", len(names), pad_token_id=pad, decoder_start_token_id=pad, decoder_vocab_size=len(names)
    )
    model.save_pretrained(folder)  # type: ignore[operator]
    return model

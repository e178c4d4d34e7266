"""A few sentences to learn vocabularies from, and one tokenizer of each kind learnt from them."""

from functools import cache

from regard.text.tokenizer import BpeConfig, ByteConfig, CharConfig, Tokenizer, UnigramConfig, WordConfig

SENTENCES = [
    "The animal did not cross the street because it was too tired.",
    "The animal did not cross the street because it was too wide.",
    "Das Tier überquerte die Straße nicht, weil es zu müde war.",
    "Das Tier überquerte die Straße nicht, weil sie zu breit war.",
    "The chef who went to the store cooked the meal for 12 guests.",
    "Der Koch, der in den Laden ging, kochte das Essen für 12 Gäste.",
    "Tokens such as <eos> or <pad> are text when they stand in a text: 1 < 2.",
    "Лиса перешла улицу. 狐が道を渡った。",
]
CORPUS = SENTENCES * 6

CONFIGS = {
    "bpe": BpeConfig(size=420),
    "unigram": UnigramConfig(size=420),
    "word": WordConfig(),
    "char": CharConfig(),
    "byte": ByteConfig(),
}
LOSSLESS = ("bpe", "unigram", "char", "byte")


@cache
def tiny_tokenizer(kind: str) -> Tokenizer:
    return Tokenizer.train(CORPUS, CONFIGS[kind])

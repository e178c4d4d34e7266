from tiny_corpus import CONFIGS, tiny_tokenizer
from tokenizers.pre_tokenizers import ByteLevel

from regard.text.pretokenizer import BYTE_CHARACTERS, describe, known_pipelines


def test_byte_characters_are_the_librarys():
    assert sorted(BYTE_CHARACTERS) == sorted(ByteLevel.alphabet())
    reader = ByteLevel(add_prefix_space=False, use_regex=False)
    for text in (bytes(range(128)).decode(), "é€😀"):
        ((characters, _),) = reader.pre_tokenize_str(text)
        assert characters == "".join(BYTE_CHARACTERS[byte] for byte in text.encode())


def test_every_tokenizer_has_a_known_pipeline():
    assert {describe(tiny_tokenizer(kind).core) for kind in CONFIGS} <= known_pipelines()
    assert len(known_pipelines()) == 3 * 2 * (4 + 2 + 1)

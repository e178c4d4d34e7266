"""Texts that tokenizers differ on: spaces, scripts, normal forms, controls, code, and special tokens spelt out."""

# ruff: noqa: E501

import unicodedata

SPECIAL = [
    "<s>", "</s>", "<pad>", "<unk>", "<mask>", "<bos>", "<eos>", "<sep>", "<cls>", "[CLS]", "[SEP]", "[PAD]", "[UNK]",
    "[MASK]", "<|endoftext|>", "<|padding|>", "<extra_id_0>", "<extra_id_99>", "<mask_1>", "<mask_2>", "<unk_2>", "<x>",
    ">>de<<", ">>xx<<", "<0x41>", "Zebra", "##s", "▁the",
]  # fmt: skip
SPACES = [
    "", " ", "  ", "\t", "\n", "\r\n", "\n\n\n", " \n ", "\u00a0", "\u2003", "\u3000", "\u200b", "\u2028", "\u2029", "\x0b",
    "\x0c", "\x1c", "\x1f", "\x85", "\ufeff", "\u2060", "\u180e", "a  b", " a", "a ", "  a  b  ", "a\tb", "a\n\nb", "a\r\nb",
    "a\u00a0b", "a\u2009b", "a\u3000b", "a\u200bb", "a\u200cb", "a\u200db", "\ufeffthe cat", "the cat\u2028sleeps", "\t\tx = 1",
]  # fmt: skip
FORMS = [
    "é", "e\u0301", "Å", "A\u030a", "\u212b", "ﬁ", "ﬂag", "ﬃ", "ĳ", "ǅ", "½", "²", "x²", "①", "㍿", "ｆｕｌｌ", "ＦＵＬＬ", "ﷺ", "ſ",
    "ẛ̣", "q\u0307\u0323", "q\u0323\u0307", "한국", "한국", "ガ", "カ\u3099", "ｶﾞ", "Ω", "Ω", "naïve", "nai\u0308ve", "Größe",
    "GRÖSSE", "Straße", "STRASSE", "ẞ", "İstanbul", "ısı", "I", "i\u0307", "ŉ", "ǰ", "ΐ", "Σίσυφος ΣΑΣ", "Ǆ", "ა Ა", "Ꭰ ꭰ",
    "e" + "\u0301" * 20, "\u0301a", "a\u0300\u0301\u0302", "\u034f", "\u00ad soft\u00adhyphen",
]  # fmt: skip
SCRIPTS = [
    "世界", "你好，世界。", "こんにちは世界", "カタカナ ひらがな", "안녕하세요 세계", "مرحبا بالعالم", "السَّلامُ عَلَيْكُم", "שלום עולם", "שָׁלוֹם",
    "สวัสดีชาวโลก", "ກຳລັງ", "នរណា", "नमस्ते दुनिया", "বাংলা", "தமிழ்", "ქართული", "Հայերեն", "Привет, мир!", "Ёлка ёлка", "Ελληνικά",
    "ᏣᎳᎩ", "ⵜⴰⵎⴰⵣⵉⵖⵜ", "ᚠᚢᚦ", "𐌰𐌱𐌲", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "𠀀𠀁", "㐀", "豈", "a世b界c", "the世界cat", "ꜳ", "ʻokina", "\u202eabc\u202c", "\u200fא",
]  # fmt: skip
EMOJI = [
    "🙂", "👩‍👩‍👧", "🇩🇪", "❤️", "❤", "👍🏽", "🏳️‍🌈", "1️⃣", "🙂🙂🙂", "a🙂b", " 🙂 ", "☃", "©®™", "→⇒", "♯♭", "€100", "£5.99",
]  # fmt: skip
CONTROLS = [
    *(chr(code) for code in (*range(0x00, 0x09), *range(0x0E, 0x14), 0x7F, 0x80, 0x9F)),
    "a\x00b",
    "\ufffd",
    "\ufffe",
]
PROSE = [
    "The cat sleeps.", "A dog saw the cat!", "Where is the street?", "It was too tired, so it slept.", "No.", "THE CAT",
    "the cat the cat", "cats", "don't", "Don't you've they're we'll I'd I'm it's", "can’t", "O'Neil's", "rock 'n' roll",
    "“quotes”", "‘single’", "«guillemets»", "„unten“", "...", "…", "—", "–", "a-b", "a_b", "a/b", "a\\b", "(a)", "[a]", "{a}",
    "hello , world .", "what ? no ! n't 's 'm 've 're", " ' ", "e.g. i.e. U.S.A.", "Mr. Smith", "3.14", "1,000,000", "1 000", "007",
    "0x1F", "1e-5", "2026-11-16", "12:34:56", "+49 170 1234567", "50%", "#tag @user", "a@b.org", "https://example.org/a?b=c&d=%20#e",
    "www.x.y", "C:\\dir\\file.txt", "/usr/bin", "def f(x):\n    return x[0] + {'k': 1}['k']  # c", "if (a && b || !c) { i++; }",
    "<html><b>x</b></html>", "SELECT * FROM t;", "$x^2$", "\\frac{a}{b}", "a" * 200, "ab" * 150, "Donaudampfschifffahrtsgesellschaft",
    "1" * 120, "!" * 50, "é" * 101, "世" * 120, "the " * 60, "aAbBcC", "iPhone", "McDonald", "x1y2z3", "a.b.c", "sleep" * 3, "~`|^",
]  # fmt: skip
AROUND = [text for token in SPECIAL for text in (token, f"a{token}b", f"the {token} cat", f" {token} ")]
LONG = ["\n".join(PROSE), " ".join(SCRIPTS), "".join(EMOJI), "".join(FORMS), " ".join(SPACES), " ".join(SPECIAL)]
MIXED = [f"The {text} cat." for text in (*FORMS[:20], *SCRIPTS[:10], *EMOJI[:10])]

TEXTS = list(dict.fromkeys([*SPACES, *FORMS, *SCRIPTS, *EMOJI, *CONTROLS, *PROSE, *AROUND, *MIXED, *LONG]))
TEXTS += [unicodedata.normalize("NFD", text) for text in SCRIPTS if unicodedata.normalize("NFD", text) not in TEXTS]
SURROGATES = ["\ud800", "a\udc80b", "the \udfff cat"]

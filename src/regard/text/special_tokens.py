"""The tokens that stand for no text of their own: the same ids in every vocabulary, whatever its kind."""

SPECIAL_TOKENS = ("<pad>", "<unk>", "<bos>", "<eos>", "<mask>", "<sep>", "<cls>")

PAD, UNK, BOS, EOS, MASK, SEP, CLS = range(len(SPECIAL_TOKENS))

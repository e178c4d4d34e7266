"""From text to token ids and back: tokenizers, vocabularies, sentences, segments. No torch."""

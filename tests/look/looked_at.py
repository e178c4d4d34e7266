"""Small models of every shape, untrained: what a page shows of them must be true whatever they have learnt."""

from functools import cache
from typing import Any

import torch

from regard.data.settings import DataConfig
from regard.data.sources import SourceConfig
from regard.data.street import pairs
from regard.decode import GreedyConfig
from regard.models import DecoderConfig, EncoderConfig, EncoderDecoderConfig
from regard.run.recipe import Recipe
from regard.tasks import (
    Classification,
    ClassificationConfig,
    LanguageModel,
    LanguageModelConfig,
    Task,
    Translation,
    TranslationConfig,
    Vocabularies,
)
from regard.tasks.trained import Trained
from regard.text.tokenizer import BpeConfig, Tokenizer, WordConfig

TEXT = "The animal did not cross the street because it was too tired."
SIZE = {"width": 32, "depth": 2, "heads": 4, "dropout": 0.0}


@cache
def tokenizer(kind: str = "bpe") -> Tokenizer:
    texts = [text for pair in pairs("train", 200) for text in pair]
    return Tokenizer.train(texts, BpeConfig(size=400, prefix_space=True) if kind == "bpe" else WordConfig(size=300))


def translator(**model: Any) -> tuple[torch.nn.Module, Translation]:
    torch.manual_seed(1)
    task = TranslationConfig().task(Vocabularies({"source": tokenizer(), "target": tokenizer()}))
    return task.build(EncoderDecoderConfig.from_tree({**SIZE, **model})).eval(), task


def writer(**model: Any) -> tuple[torch.nn.Module, LanguageModel]:
    torch.manual_seed(1)
    task = LanguageModelConfig().task(Vocabularies({"text": tokenizer()}))
    return task.build(DecoderConfig.from_tree({**SIZE, **model})).eval(), task


def classifier(**model: Any) -> tuple[torch.nn.Module, Classification]:
    torch.manual_seed(1)
    task = ClassificationConfig().task(Vocabularies({"text": tokenizer("word")}, ["bad", "good"]))
    return task.build(EncoderConfig.from_tree({**SIZE, **model})).eval(), task


def by_hand(model: Any, task: Task, documents: bool = False, step: int = 0) -> Trained:
    data = DataConfig() if documents else DataConfig(train=SourceConfig(file="running.txt"))
    recipe = Recipe(task=task.config, model=model.config, data=data, search=GreedyConfig())
    return Trained(model, task, recipe, torch.device("cpu"), "", step)

"""Where data, model, loss and metric meet: one file a task."""

from typing import Annotated

from regard.config import BARE_KIND, BY_KIND
from regard.tasks.base import Inputs as Inputs
from regard.tasks.base import Lexicon as Lexicon
from regard.tasks.base import Task as Task
from regard.tasks.classification import Classification as Classification
from regard.tasks.classification import ClassificationConfig as ClassificationConfig
from regard.tasks.language_model import LanguageModel as LanguageModel
from regard.tasks.language_model import LanguageModelConfig as LanguageModelConfig
from regard.tasks.translation import Translation as Translation
from regard.tasks.translation import TranslationConfig as TranslationConfig

TaskConfig = Annotated[TranslationConfig | LanguageModelConfig | ClassificationConfig, BY_KIND, BARE_KIND]

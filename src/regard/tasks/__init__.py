"""Where data, model, loss and metric meet: one file a task."""

from regard.config import import_all
from regard.tasks.base import Inputs as Inputs
from regard.tasks.base import Task as Task
from regard.tasks.base import TaskConfig as TaskConfig
from regard.tasks.base import Vocabularies as Vocabularies
from regard.tasks.classification import Classification as Classification
from regard.tasks.classification import ClassificationConfig as ClassificationConfig
from regard.tasks.images import ImageClassification as ImageClassification
from regard.tasks.images import ImageClassificationConfig as ImageClassificationConfig
from regard.tasks.images import ImageDescription as ImageDescription
from regard.tasks.images import ImageDescriptionConfig as ImageDescriptionConfig
from regard.tasks.language_model import LanguageModel as LanguageModel
from regard.tasks.language_model import LanguageModelConfig as LanguageModelConfig
from regard.tasks.masked_language_model import MaskedLanguageModel as MaskedLanguageModel
from regard.tasks.masked_language_model import MaskedLanguageModelConfig as MaskedLanguageModelConfig
from regard.tasks.multi_label import MultiLabel as MultiLabel
from regard.tasks.multi_label import MultiLabelConfig as MultiLabelConfig
from regard.tasks.summarisation import Summarisation as Summarisation
from regard.tasks.summarisation import SummarisationConfig as SummarisationConfig
from regard.tasks.tagging import Tagging as Tagging
from regard.tasks.tagging import TaggingConfig as TaggingConfig
from regard.tasks.translation import Translation as Translation
from regard.tasks.translation import TranslationConfig as TranslationConfig

import_all(__name__, __path__)  # a new task is a file in this folder

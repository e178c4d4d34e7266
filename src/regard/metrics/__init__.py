"""Scores of what models write and choose; no torch."""

from regard.metrics.attachment import Attachment as Attachment
from regard.metrics.attachment import attachment as attachment
from regard.metrics.classification import ConfusionMatrix as ConfusionMatrix
from regard.metrics.classification import accuracy as accuracy
from regard.metrics.classification import confusion_matrix as confusion_matrix
from regard.metrics.classification import exact_match as exact_match
from regard.metrics.classification import macro_f1 as macro_f1
from regard.metrics.language import bits_per_byte as bits_per_byte
from regard.metrics.language import perplexity as perplexity
from regard.metrics.score import Score as Score
from regard.metrics.significance import Comparison as Comparison
from regard.metrics.significance import accuracy_test as accuracy_test
from regard.metrics.significance import bootstrap_interval as bootstrap_interval
from regard.metrics.significance import paired_test as paired_test
from regard.metrics.summarisation import rouge as rouge
from regard.metrics.translation import bleu as bleu
from regard.metrics.translation import chrf as chrf
from regard.metrics.translation import gleu as gleu
from regard.metrics.translation import sentence_bleu as sentence_bleu
from regard.metrics.translation import ter as ter

"""Scores of what models write and choose; no torch."""

from regard.metrics.classification import confusion_matrix as confusion_matrix
from regard.metrics.classification import macro_f1 as macro_f1
from regard.metrics.language import Restoration as Restoration
from regard.metrics.language import bits_per_byte as bits_per_byte
from regard.metrics.language import perplexity as perplexity
from regard.metrics.multi_label import average_precision as average_precision
from regard.metrics.multi_label import mean_average_precision as mean_average_precision
from regard.metrics.registry import METRICS as METRICS
from regard.metrics.significance import accuracy_test as accuracy_test
from regard.metrics.significance import paired_test as paired_test
from regard.metrics.significance import sign_flips as sign_flips
from regard.metrics.significance import smallest_p as smallest_p
from regard.metrics.texts import Attachment as Attachment
from regard.metrics.texts import attachment as attachment
from regard.metrics.texts import bleu as bleu
from regard.metrics.texts import chrf as chrf
from regard.metrics.texts import exact_match as exact_match
from regard.metrics.texts import gleu as gleu
from regard.metrics.texts import rouge as rouge
from regard.metrics.texts import sentence_bleu as sentence_bleu
from regard.metrics.texts import ter as ter

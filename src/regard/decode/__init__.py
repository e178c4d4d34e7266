"""Greedy search, beam search and sampling, scoring and ensembles, each written once on the Stepper contract."""

from regard.decode.beam import BeamConfig as BeamConfig
from regard.decode.beam import BeamSearch as BeamSearch
from regard.decode.beam import LengthPenalty as LengthPenalty
from regard.decode.job import Hypothesis as Hypothesis
from regard.decode.job import Job as Job
from regard.decode.job import batches as batches
from regard.decode.job import in_batches as in_batches
from regard.decode.job import make_job as make_job
from regard.decode.sampling import SampleConfig as SampleConfig
from regard.decode.sampling import Sampler as Sampler
from regard.decode.scoring import score as score
from regard.decode.search import AnySearch as AnySearch
from regard.decode.search import SearchConfig as SearchConfig
from regard.decode.search import search as search
from regard.decode.search import stream as stream
from regard.decode.steppers import AnyStepper as AnyStepper
from regard.decode.steppers import Ensemble as Ensemble
from regard.decode.stepwise import GreedyConfig as GreedyConfig
from regard.decode.trace import Trace as Trace

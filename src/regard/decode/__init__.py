"""Greedy search, beam search and sampling, scoring and ensembles, each written once on the Stepper contract."""

from regard.decode.batch import Job as Job
from regard.decode.batch import make_job as make_job
from regard.decode.batching import batches as batches
from regard.decode.batching import in_batches as in_batches
from regard.decode.beam import BeamConfig as BeamConfig
from regard.decode.beam import BeamSearch as BeamSearch
from regard.decode.constraints import Rules as Rules
from regard.decode.ensemble import Ensemble as Ensemble
from regard.decode.greedy import Greedy as Greedy
from regard.decode.greedy import GreedyConfig as GreedyConfig
from regard.decode.hypothesis import GeneratedToken as GeneratedToken
from regard.decode.hypothesis import Hypothesis as Hypothesis
from regard.decode.penalty import LengthPenalty as LengthPenalty
from regard.decode.sampling import SampleConfig as SampleConfig
from regard.decode.sampling import Sampler as Sampler
from regard.decode.scoring import score as score
from regard.decode.search import SearchConfig as SearchConfig
from regard.decode.search import search as search
from regard.decode.search import stream as stream
from regard.decode.trace import Trace as Trace

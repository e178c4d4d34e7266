"""Looking inside: a trace of any trained model as JSON, and the page that shows it."""

from regard.look.image_trace import trace_image as trace_image
from regard.look.page import content_security_policy as content_security_policy
from regard.look.page import render as render
from regard.look.trace import Snapshot as Snapshot
from regard.look.trace import TraceConfig as TraceConfig
from regard.look.trace import blank_tree as blank_tree
from regard.look.trace import trace as trace

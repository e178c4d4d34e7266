"""Looking inside: a trace of any trained model as JSON, and the page that shows it."""

from regard.look.image import trace_image as trace_image
from regard.look.page import content_security_policy as content_security_policy
from regard.look.page import render as render
from regard.look.tracing import Snapshot as Snapshot
from regard.look.tracing import TraceConfig as TraceConfig
from regard.look.tracing import blank_tree as blank_tree
from regard.look.tracing import trace as trace

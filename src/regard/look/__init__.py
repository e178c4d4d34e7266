"""A look inside trained models: the payload of one input, and the page that shows it."""

from regard.look.page import content_security_policy as content_security_policy
from regard.look.page import render as render
from regard.look.payload import TraceConfig as TraceConfig
from regard.look.trace import blank_tree as blank_tree
from regard.look.trace import trace as trace

"""One script a program. Each runs by itself, in whatever environment has the program, and needs nothing of ours but
`protocol.py` beside it; `of_regard.py` and `of_regard_ctranslate2.py` are regard itself, by the same rules.
"""

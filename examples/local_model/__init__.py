"""A real, small model, served to be measured.

serve.py  Needle 3 behind the chat completions API, in an environment of its own; docs/lab.md has what came out
"""

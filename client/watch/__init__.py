"""The live pictures of `longshift watch` on a terminal.

looks.py     looking at the server at a bounded pace, and going on when it was away
picture.py   what is shown, in any width and height: pure
screen.py    the terminal: a screen of its own, keys, and all of it given back in the end
one.py       one run, and what the keys do
overview.py  all runs that have not ended
"""

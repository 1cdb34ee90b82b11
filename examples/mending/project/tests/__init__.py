"""The tests of the rota: `python3 -m unittest -q`."""

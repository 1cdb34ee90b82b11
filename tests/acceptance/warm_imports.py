"""What every process that warm.py starts would import: imported once, by the process that forks them."""

import gc
import importlib
import pkgutil

import client.commands

for command in pkgutil.iter_modules(client.commands.__path__, "client.commands."):
    importlib.import_module(command.name)
for name in ("client.main", "worker.process"):
    importlib.import_module(name)
gc.collect()
gc.freeze()

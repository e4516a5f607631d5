"""The modules of a process from which others are forked: the program, all of its commands, and the worker of tests."""

import importlib
import pkgutil

import app.asgi
import app.bootstrap
import app.cli
import tests.chaos.behaviours.worker
import tests.support.forked

IMPORTED = [
    app.asgi,
    app.bootstrap,
    tests.chaos.behaviours.worker,
    tests.support.forked,
    *(importlib.import_module(found.name) for found in pkgutil.walk_packages(app.cli.__path__, "app.cli.")),
]

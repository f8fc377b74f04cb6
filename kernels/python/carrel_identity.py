"""A process cloned or forked from another gets randomness and environment of its own."""

import os
import random
import sys
import time

import _carrel


def reseed(entropy=b""):
    """Mix fresh randomness into every generator of this process that keeps state.

    secrets, os.urandom and numpy's default_rng ask the system each time.
    """
    fresh = os.urandom(64) + entropy
    random.seed(fresh)
    if "numpy.random" in sys.modules:
        numpy = sys.modules["numpy"]
        words = numpy.frombuffer(os.urandom(64), dtype=numpy.uint32)
        numpy.random.seed(words)
    if "tempfile" in sys.modules:
        sys.modules["tempfile"]._name_sequence = None
    if "multiprocessing.process" in sys.modules:
        sys.modules["multiprocessing.process"].current_process().authkey = os.urandom(32)
    if "uuid" in sys.modules:
        _reseed_uuid(sys.modules["uuid"])
    _carrel.reseed_tls(fresh)


def _reseed_uuid(uuid):
    # uuid1: the C library keeps node and sequence where nothing can reset them.
    uuid._generate_time_safe = None
    uuid._last_timestamp = None
    uuid._node = int.from_bytes(os.urandom(6), "big") | (1 << 40)


class Environment:
    """The variables the host has set, so that only those are ever replaced."""

    def __init__(self):
        self.base = dict(os.environ)
        self.given = {}
        self.own = {}

    def own_values(self, env):
        """Variables of this kernel alone: they win over the sandbox's."""
        self.own = dict(env)
        os.environ.update(self.own)

    def replace(self, env):
        """The sandbox's variables are env now. What the user changed stays."""
        for name, old in self.given.items():
            if name in env or name in self.own or os.environ.get(name) != old:
                continue
            if name in self.base:
                os.environ[name] = self.base[name]
            else:
                del os.environ[name]
        for name, value in env.items():
            if name not in self.own and self.given.get(name) != value:
                os.environ[name] = value
        self.given = dict(env)
        time.tzset()

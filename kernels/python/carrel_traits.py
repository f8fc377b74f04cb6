"""Reading a trait, which IPython does forty times for `1 + 1`, in one look.

traitlets passes each read through two calls and two casts for the type checker.
A value that is there is taken where it lies; what has to be made first, and
kinds of traits with a get() of their own, are left to traitlets.
"""

from traitlets import TraitType

slowly = TraitType.__get__
plain = TraitType.get


def read(self, obj, cls=None):
    if obj is not None and type(self).get is plain:
        try:
            return obj._trait_values[self.name]
        except (AttributeError, KeyError):
            pass
    return slowly(self, obj, cls)


def install():
    TraitType.__get__ = read

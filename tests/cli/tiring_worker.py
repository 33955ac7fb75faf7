"""A worker with operations that no certificate should have: they try its limits."""

import os
import time

import numpy as np

from curvedp.errors import VerificationFailed
from curvedp.verify_worker import answer


def sleep(question):
    time.sleep(600)


def compute(question):
    while True:
        pass


def allocate(question):
    return float(np.ones(1 << 30).sum())


def fail(question):
    raise KeyError("a text that the certificate chose")


def refuse(question):
    raise VerificationFailed("it is not so")


def die(question):
    os._exit(9)


def add(question):
    return sum(question["numbers"])


if __name__ == "__main__":
    operations = (sleep, compute, allocate, fail, refuse, die, add)
    answer({operation.__name__: operation for operation in operations})

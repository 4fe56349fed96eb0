"""Batteries that try to break the library for as long as one likes: ``make fuzz``, or ``python -m tests.fuzz``.

A battery is a function of a random generator and an empty folder that tries one case and raises where the library is wrong.
The runner takes the batteries in turn until the time is over. Each case is drawn from the seed, the battery's name and the
case's number alone, so a failure is repeated with ``python -m tests.fuzz BATTERY --seed SEED --case NUMBER``.
"""

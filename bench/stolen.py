"""bench/stolen.py - how much of the processors others took.

On a virtual machine the host may run somebody else while a thread here wants to run;
the kernel counts that as stolen. Threads that wake each other for microseconds suffer
from it out of proportion, and no ratio makes up for it.
"""


class Stolen:
    """The share of all processor time since the last look."""

    def __init__(self):
        self.last = self.read()

    @staticmethod
    def read():
        with open("/proc/stat", encoding="ascii") as stat:
            ticks = [int(word) for word in stat.readline().split()[1:9]]
        return ticks[7], sum(ticks)

    def share(self):
        before, self.last = self.last, self.read()
        stolen, all_ticks = (now - then for now, then in zip(self.last, before))
        return stolen / all_ticks if all_ticks > 0 else 0.0

#!/usr/bin/env python3
"""Schedules against another reading of them: Python's zones, and a search minute
by minute for when local clocks first show, or have passed, what the fields say.

usage: scale_schedule_oracle.py PROGRAM [SEED]
"""
import datetime
import random
import subprocess
import sys
import zoneinfo

ZONES = ["UTC", "Europe/Zurich", "America/New_York", "America/Nuuk",
         "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia",
         "Europe/Dublin", "Asia/Kathmandu", "America/Sao_Paulo",
         "Antarctica/Troll", "Africa/Cairo", "Asia/Gaza", "Asia/Tehran"]
LIMITS = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]
MINUTE, DAY = 60, 24 * 3600
DAY_MINUTES = 24 * 60
ASKED_EACH = 15 * MINUTE  # Of Python's zones, where no clock changes.
AHEAD = 16 * DAY        # How far the search goes.
BEHIND = 8 * DAY        # The longest window, and a day.
UTC = datetime.timezone.utc


def a_field(rng, low, high):
    kind = rng.randrange(6)
    if kind < 2:
        return "*"
    if kind == 2:
        return f"*/{rng.randint(2, max(2, high // 2))}"
    if kind == 3:
        a, b = sorted((rng.randint(low, high), rng.randint(low, high)))
        return f"{a}-{b}" + (f"/{rng.randint(1, 5)}" if rng.random() < .3
                             else "")
    return ",".join(str(rng.randint(low, high))
                    for _ in range(rng.randint(1, 3)))


def values(text, low, high):
    found = set()
    for part in text.split(","):
        part, _, step = part.partition("/")
        a, _, b = part.partition("-")
        first, last = (low, high) if part == "*" else (int(a), int(b or a))
        found |= set(range(first, last + 1, int(step or 1)))
    return found


class Fields:
    def __init__(self, texts):
        self.texts = texts
        self.sets = [values(t, *limit) for t, limit in zip(texts, LIMITS)]
        self.times = {hour * 60 + minute for hour in self.sets[1]
                      for minute in self.sets[0]}
        self.days = {}

    def match(self, minute):
        """A local minute, counted from the year 1 on."""
        if minute % DAY_MINUTES not in self.times:
            return False
        day = minute // DAY_MINUTES
        if day not in self.days:
            self.days[day] = self.match_day(datetime.date.fromordinal(day))
        return self.days[day]

    def match_day(self, t):
        _, _, day, month, weekday = self.sets
        if t.month not in month:
            return False
        of_week = t.isoweekday() in weekday or t.isoweekday() % 7 in weekday
        of_month = t.day in day
        free = [text in ("*", "*/1") for text in (self.texts[2], self.texts[4])]
        if free[0] or free[1]:
            return (free[0] or of_month) and (free[1] or of_week)
        return of_month or of_week


def local_minute(at, zone):
    """What local clocks show, as Fields.match wants it."""
    local = datetime.datetime.fromtimestamp(at, UTC).astimezone(zone)
    return (local.toordinal() * DAY_MINUTES + local.hour * 60 + local.minute)


def local_minutes(zone, begin, end):
    """What local clocks show at every minute of [begin, end). Where they show the same
    distance before and after so many minutes, no clock was changed between."""
    for first in range(begin, end, ASKED_EACH):
        local = local_minute(first, zone)
        steady = (local_minute(first + ASKED_EACH, zone) - local) * MINUTE == ASKED_EACH
        for at in range(first, min(first + ASKED_EACH, end), MINUTE):
            yield at, (local + (at - first) // MINUTE if steady
                       else local_minute(at, zone))


def starts(fields, zone, begin, end):
    """Every moment in [begin, end) at which a window begins."""
    found = []
    reached = None
    for at, local in local_minutes(zone, begin - 2 * DAY, end):
        if reached is None:
            reached = local
            continue
        hit = False
        while reached < local:
            reached += 1
            hit = fields.match(reached) or hit
        if hit and at >= begin:
            found.append(at)
    return found


def expect(found, at, duration):
    later = [s for s in found if s > at]
    until = None
    for s in found:
        if s <= at < s + duration:
            until = s + duration
    if until is None:
        return (later[0] if later else None, 0, later[0] if later else None)
    for s in later:
        if s > until:
            break
        until = s + duration
    return (later[0] if later else None, 1, until)


def changes_of(zone, year):
    """Noons and midnights around which the zone's clocks change."""
    at = int(datetime.datetime(year, 1, 1, tzinfo=UTC).timestamp())
    before = None
    for t in range(at, at + 366 * DAY, DAY // 2):
        offset = datetime.datetime.fromtimestamp(t, UTC).astimezone(
            zone).utcoffset()
        if before not in (None, offset):
            yield t
        before = offset


def a_time(rng, zone):
    year = rng.choice([2005, 2011, 2019, 2024, 2025, 2026, 2038, 2061, 2099])
    changes = list(changes_of(zone, year))
    if changes and rng.random() < .8:
        near = rng.choice(changes)
        return near + rng.randint(-2 * 1440, 2 * 1440) * MINUTE
    return (int(datetime.datetime(year, 1, 1, tzinfo=UTC).timestamp())
            + rng.randrange(365 * 1440) * MINUTE)


def main():
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rng = random.Random(seed)
    lines, expected = [], []
    for _ in range(40):
        name = rng.choice(ZONES)
        zone = zoneinfo.ZoneInfo(name)
        texts = [a_field(rng, *limit) for limit in LIMITS]
        if rng.random() < .7:
            texts[3] = "*"  # Else there is seldom one within the search.
        fields = Fields(texts)
        minutes = rng.choice([1, 30, 60, 95, 480, 1440, 3000, 10080])
        at = a_time(rng, zone)
        found = starts(fields, zone, at - BEHIND, at + AHEAD)
        for _ in range(25):
            t = at + rng.randint(-1440, 1440) * MINUTE + rng.choice([0, 0, 59])
            lines.append(f"{name}|{t}|{' '.join(texts)} for {minutes}m "
                         "at least 5")
            expected.append((t, at, expect(found, t, minutes * MINUTE)))
    answer = subprocess.run([sys.argv[1]], input="\n".join(lines) + "\n",
                            capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        sys.exit(f"the program failed: {answer.stderr}")
    wrong = found_next = held = 0
    for line, got, (t, at, (nxt, holds, changes)) in zip(
            lines, answer.stdout.splitlines(), expected, strict=True):
        got_next, got_holds, got_changes = map(int, got.split())
        # The search ends somewhere; what lies beyond it is not known.
        limit = at + AHEAD - 10 * DAY
        fine = got_holds == holds
        if nxt is not None:
            fine = fine and got_next == nxt
            found_next += 1
        else:
            fine = fine and got_next >= at + AHEAD
        if changes is not None and changes < limit:
            # Windows without a gap may be told of in parts.
            fine = fine and (got_changes == changes
                             or holds and t < got_changes < changes)
            held += holds
        if not fine:
            wrong += 1
            print(f"{line}: {got}, not {nxt} {holds} {changes}")
    print(f"seed {seed}: {len(lines)} questions, {found_next} with a next "
          f"window, {held} within one, {wrong} wrong")
    if wrong or found_next < 500 or held < 100:
        sys.exit(1)


main()

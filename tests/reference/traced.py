"""Decodes a trace of `cloze profile` with Perfetto's own messages: it is well-formed and matches the table.

    python traced.py PROGRAM ARGUMENT ...     (PROGRAM profile ARGUMENT ... --json --trace FILE is run)

Every end has its start on its track, times are ordered, flows have both ends, queues stay within their capacity, and
the time that an actor is busy, starved and blocked within the slice `measured` matches the table to 1 % of the
measured time, and where it is more than a twentieth of it, to 1 % of itself.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as wire

STATES = ("busy", "starved", "blocked")
Event = wire.TrackEvent
ATTEMPTS = 5


class Otherwise(Exception):
    """The trace and the table differ too much."""


def read(path):
    with open(path, "rb") as file:
        trace = wire.Trace.FromString(file.read())
    return trace.packet


class Tracks:
    """Tracks by number: names, slices (name, begin, end, depth), instants, counts; flows by their ends."""

    def __init__(self, packets):
        self.names, self.counters, self.parents = {}, {}, {}
        self.slices, self.moments = defaultdict(list), defaultdict(list)
        self.counts, self.begins, self.ends = defaultdict(list), defaultdict(list), defaultdict(list)
        events, notes, last, open_slices = {}, {}, 0, defaultdict(list)
        clock = None
        for packet in packets:
            assert packet.trusted_packet_sequence_id == 1, packet
            for named in packet.interned_data.event_names:
                events[named.iid] = named.name
            for named in packet.interned_data.debug_annotation_names:
                notes[named.iid] = named.name
            kind = packet.WhichOneof("data")
            if kind == "clock_snapshot":
                clock = packet.clock_snapshot.primary_trace_clock
                assert packet.sequence_flags == 1 and packet.trace_packet_defaults.timestamp_clock_id == clock
                assert {3, 6} <= {known.clock_id for known in packet.clock_snapshot.clocks}
                continue
            assert clock == 3 and packet.sequence_flags == 2, "the first packet says how to read all others"
            if kind == "track_descriptor":
                self.describe(packet.track_descriptor)
                continue
            assert kind == "track_event", kind
            event, at = packet.track_event, packet.timestamp
            assert at >= last, "times are in order"
            last, track = at, event.track_uuid
            assert track in self.names, "a track is described before it is used"
            for arrow in event.flow_ids:
                self.begins[arrow].append(at)
            for arrow in event.terminating_flow_ids:
                self.ends[arrow].append(at)
            said = {notes[note.name_iid]: note for note in event.debug_annotations}
            if event.type == Event.TYPE_SLICE_BEGIN:
                open_slices[track].append((events[event.name_iid], at))
            elif event.type == Event.TYPE_SLICE_END:
                name, begin = open_slices[track].pop()
                self.slices[track].append((name, begin, at, len(open_slices[track])))
            elif event.type == Event.TYPE_INSTANT:
                self.moments[track].append((events[event.name_iid], at, said))
            else:
                assert event.type == Event.TYPE_COUNTER and track in self.counters
                self.counts[track].append((at, event.counter_value))
        left = {self.names[track]: slices for track, slices in open_slices.items() if slices}
        assert not left, f"slices without an end: {left}"
        assert not any(name in STATES for name in self.names.values())

    def describe(self, track):
        self.names[track.uuid] = track.name or track.process.process_name
        self.parents[track.uuid] = track.parent_uuid
        assert track.parent_uuid == 0 or track.parent_uuid in self.names
        if track.HasField("counter"):
            self.counters[track.uuid] = int(track.counter.unit_name.removeprefix("of "))

    def named(self, name):
        found = [track for track, known in self.names.items() if known == name]
        assert len(found) == 1, f"{len(found)} tracks of the name {name}"
        return found[0]

    def check(self):
        for arrow in self.begins.keys() | self.ends.keys():
            begins, ends = self.begins[arrow], self.ends[arrow]
            assert len(begins) == 1 and len(ends) == 1 and begins[0] <= ends[0], f"arrow {arrow}: {begins} {ends}"
        for track, counts in self.counts.items():
            assert all(0 <= count <= self.counters[track] for _, count in counts), self.names[track]
        for name in {known for track, known in self.names.items() if self.slices[track] and known != "measured"}:
            for track in (track for track, known in self.names.items() if known == name):
                outer = sorted((begin, end, what) for what, begin, end, depth in self.slices[track] if depth == 0)
                states = [what for _, _, what in outer]
                if any(state in STATES for state in states):
                    assert all(state in STATES for state in states), f"{name}: {set(states)}"
                assert all(one[1] <= two[0] for one, two in zip(outer, outer[1:])), f"{name}: slices overlap"


def spent(tracks, track, window):
    """Returns the nanoseconds of each state within a time range."""
    begin, end = window
    sums = dict.fromkeys(STATES, 0)
    for name, since, until, depth in tracks.slices[track]:
        if depth == 0 and name in sums:
            sums[name] += max(0, min(until, end) - max(since, begin))
    return sums


def window(tracks):
    found = [slot for slot in tracks.slices[tracks.named("measured")] if slot[0] == "measured"]
    assert len(found) == 1, found
    return found[0][1], found[0][2]


def compare(tracks, profile):
    begin, end = window(tracks)
    seconds = (end - begin) / 1e9
    assert abs(seconds - profile["seconds"]) < 1e-3, (seconds, profile["seconds"])
    worst = 0.0
    for actor in profile["actors"]:
        sums = spent(tracks, tracks.named(actor["name"]), (begin, end))
        for state in STATES:
            seen, said = sums[state] / 1e9, actor[state] * profile["seconds"]
            off = abs(seen - said)
            worst = max(worst, off / seconds)
            if off > 0.01 * (said if said > seconds / 20 else seconds):
                raise Otherwise(f"{actor['name']} is {state} for {seen} s, the table says {said}")
    return worst


def profiled(program, arguments, folder):
    path = os.path.join(folder, "trace.pftrace")
    command = [program, "profile", *arguments, "--json", "--trace", path]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return json.loads(answer.stdout), Tracks(read(path))


def checked(program, arguments):
    """Returns a profile, the tracks of its trace, and their difference."""
    with tempfile.TemporaryDirectory() as folder:
        profile, tracks = profiled(program, arguments, folder)
    tracks.check()
    cut = [moment for track in tracks.moments.values() for moment in track if moment[0] == "trace limit reached"]
    if cut:
        sys.exit(f"cut short: {cut[0][2]['dropped_entries'].uint_value} entries were dropped")
    return profile, tracks, compare(tracks, profile)


def main():
    program, *arguments = sys.argv[1:]
    for attempt in range(ATTEMPTS):
        try:
            profile, tracks, worst = checked(program, arguments)
            break
        except Otherwise as off:
            # Clocks of one snapshot are read in sequence, which takes time on a loaded machine.
            if attempt + 1 == ATTEMPTS:
                sys.exit(f"{ATTEMPTS} times: {off}")
    names = {name for slices in tracks.slices.values() for name, *_ in slices}
    wanted = {"batch", "decode", "render"} if profile["target"] == "loader" else {"part", "read", "tokenize", "pack"}
    assert wanted <= names, f"{wanted - names} are missing of {names}"
    assert tracks.begins, "nothing leads from one actor to another"
    slices, arrows = sum(map(len, tracks.slices.values())), len(tracks.begins)
    counts = sum(map(len, tracks.counts.values()))
    print(
        f"perfetto: {profile['half']}: {len(tracks.names)} tracks, {slices} slices, {arrows} arrows, {counts} numbers of "
        f"queues; states of {len(profile['actors'])} actors as the table has them, to {worst:.4%} of the measured time"
    )


if __name__ == "__main__":
    main()

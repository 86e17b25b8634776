//! `cloze profile --trace` and `--folded`: traces are well-formed and match the table of the profile.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use serde_json::Value;
use testkit::{Home, Outcome, profile_args};

use self::wire::{AnnotationValue, BEGIN, COUNTER, Data, END, INSTANT, Packets};

#[expect(dead_code, reason = "what only a writer needs")]
#[path = "../profiler/src/trace/wire.rs"]
mod wire;

const SETS: [&str; 4] = ["--set", "run.folder=run", "--set", "data.workers=2"];
const STATES: [&str; 3] = ["busy", "starved", "blocked"];

/// Completed slice.
struct Slice {
    name: String,
    begin: u64,
    end: u64,
    depth: usize,
}

/// Parsed trace file that is well-formed.
#[derive(Default)]
struct Tracks {
    names: BTreeMap<u64, String>,
    slices: BTreeMap<u64, Vec<Slice>>,
    arrows: usize,
    counts: usize,
    /// Number of dropped entries in the file.
    dropped: Option<u64>,
}

impl Tracks {
    /// Reads a file. Asserts that every end has its start, times are ordered, flows have both ends, and queues stay
    /// within their capacity.
    fn read(home: &Home, file: &str) -> Self {
        let packets = Packets::decode(&*std::fs::read(home.join(file)).expect("written")).expect("Perfetto's packets");
        let mut tracks = Self::default();
        let mut events = BTreeMap::new();
        let mut notes = BTreeMap::new();
        let mut places = BTreeMap::new();
        let mut last = 0;
        let mut has_clocks = false;
        let mut open: BTreeMap<u64, Vec<(String, u64)>> = BTreeMap::new();
        let mut begun = BTreeSet::new();
        let mut ended = BTreeSet::new();
        for packet in packets.packet {
            assert_eq!(packet.sequence, 1);
            if let Some(interned) = packet.interned {
                events.extend(interned.events.into_iter().map(|named| (named.number, named.name)));
                notes.extend(interned.annotations.into_iter().map(|named| (named.number, named.name)));
            }
            let event = match packet.data.expect("no packet is empty") {
                Data::Clocks(clocks) => {
                    assert!(clocks.primary == 3 && packet.defaults.is_some_and(|defaults| defaults.clock == 3));
                    has_clocks = true;
                    continue;
                }
                Data::Track(track) => {
                    if let Some(counter) = track.counter {
                        let of = counter.unit_name.strip_prefix("of ").expect("its places");
                        places.insert(track.uuid, of.parse::<i64>().expect("a number"));
                    }
                    tracks.names.insert(track.uuid, track.name);
                    continue;
                }
                Data::Event(event) => event,
            };
            let at = packet.timestamp.expect("what happens has its time");
            assert!(has_clocks && at >= last, "clocks first, and times in order");
            last = at;
            assert!(tracks.names.contains_key(&event.track));
            begun.extend(event.flows);
            for flow in event.ending_flows {
                assert!(begun.contains(&flow) && ended.insert(flow), "an arrow has one beginning, before its one end");
            }
            let stack = open.entry(event.track).or_default();
            match event.kind {
                BEGIN => stack.push((events[&event.name].clone(), at)),
                END => {
                    let (name, begin) = stack.pop().expect("an end has its beginning");
                    let slice = Slice { name, begin, end: at, depth: stack.len() };
                    tracks.slices.entry(event.track).or_default().push(slice);
                }
                COUNTER => {
                    let count = event.count.expect("a number");
                    assert!(count >= 0 && count <= places[&event.track], "{count} in {}", tracks.names[&event.track]);
                    tracks.counts += 1;
                }
                INSTANT => {
                    for annotation in event.annotations {
                        if let (Some(AnnotationValue::Number(count)), "dropped_entries") =
                            (annotation.value, notes[&annotation.name].as_str())
                        {
                            tracks.dropped = Some(count);
                        }
                    }
                }
                other => panic!("an event of kind {other}"),
            }
        }
        assert!(open.values().all(Vec::is_empty), "a beginning has its end");
        assert_eq!(begun, ended);
        tracks.arrows = ended.len();
        tracks
    }

    fn of(&self, name: &str) -> &[Slice] {
        let named: Vec<u64> = self.names.iter().filter(|(_, known)| *known == name).map(|(track, _)| *track).collect();
        assert_eq!(named.len(), 1, "tracks of the name {name}");
        self.slices.get(&named[0]).map_or(&[], Vec::as_slice)
    }

    fn has(&self, name: &str) -> bool {
        self.slices.values().flatten().any(|slice| slice.name == name)
    }

    /// Returns the largest difference between the states of an actor and the table, as a share of the measured time.
    fn off(&self, profile: &Value) -> f64 {
        let measured = self.of("measured").iter().find(|slice| slice.name == "measured").expect("it was measured");
        let length = (measured.end - measured.begin) as f64;
        let mut worst = 0.0_f64;
        for actor in profile["actors"].as_array().expect("a list") {
            let slices = self.of(actor["name"].as_str().expect("a name"));
            for state in STATES {
                let within =
                    |slice: &Slice| slice.end.min(measured.end).saturating_sub(slice.begin.max(measured.begin));
                let states = slices.iter().filter(|slice| slice.depth == 0 && slice.name == state);
                let share = states.map(within).sum::<u64>() as f64 / length;
                worst = worst.max((share - actor[state].as_f64().expect("a share")).abs());
            }
        }
        worst
    }
}

fn profiled(home: &Home, args: &[&str]) -> Outcome {
    home.run_ok(&[profile_args(args), SETS.to_vec()].concat())
}

/// Profiles with a trace whose states match the table. Clocks of one snapshot are read in sequence, which takes time
/// on a busy machine.
fn trace_that_matches_the_table(home: &Home, args: &[&str]) -> Tracks {
    let outcome = profiled(home, &[args, &["--trace", "out.pftrace"]].concat());
    let tracks = Tracks::read(home, "out.pftrace");
    assert_eq!(tracks.dropped, None, "{outcome}");
    let off = tracks.off(&serde_json::from_str(&outcome.stdout).expect("an object"));
    assert!(off < 0.1, "{off} of the time: {outcome}");
    tracks
}

#[test]
fn trace_is_well_formed_and_matches_the_table() {
    let home = Home::prepared(200);
    let online = trace_that_matches_the_table(&home, &["--seconds", "2", "--step-ms", "4"]);
    for name in ["busy", "blocked", "batch", "decode", "render"] {
        assert!(online.has(name), "{name}");
    }
    assert!(online.arrows > 0 && online.counts > 0);
    assert!(
        online.of("batch-0").iter().any(|slice| slice.name == "batch" && slice.depth == 1),
        "batches lie in states"
    );

    let workers = ["prepare", "--slow", "writer=200", "--set", "prepare.workers=2"];
    let offline = trace_that_matches_the_table(
        &home,
        &[&workers[..], &["--set", "prepare.part_bytes=4000", "--set", "prepare.folder=none"]].concat(),
    );
    for name in ["part", "read", "tokenize", "pack", "write"] {
        assert!(offline.has(name), "{name}");
    }
    assert!(offline.arrows > 0, "parts go to the fold");
    let waits = offline.of("prepare-0").iter().filter(|slice| slice.name == "write");
    assert!(waits.map(|slice| slice.end - slice.begin).max() > Some(199_000_000), "a long stretch is one slice");
}

#[test]
fn truncated_trace_is_marked() {
    let home = Home::prepared(200);
    let outcome = profiled(&home, &["--batches", "500", "--trace", "out.pftrace", "--max-trace-events", "600"]);
    let tracks = Tracks::read(&home, "out.pftrace");
    let dropped = tracks.dropped.expect("the file says so");
    assert!(dropped > 0 && outcome.stderr.contains(&format!("{dropped} entries were dropped")), "{outcome}");
    assert!(tracks.has("batch") && outcome.stderr.contains("--max-trace-events"), "{outcome}");
}

#[test]
fn folded_stacks_have_actors_and_counts() {
    let home = Home::prepared(200);
    let slow = ["--seconds", "2", "--slow", "workers=20", "--folded", "out.folded"];
    profiled(&home, &slow);
    let text = std::fs::read_to_string(home.join("out.folded")).expect("written");
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for line in text.lines() {
        let (stack, count) = line.rsplit_once(' ').expect("a stack and a count");
        let frames: Vec<&str> = stack.split(';').collect();
        assert!(frames.len() >= 2 && STATES.contains(&frames[1]), "{line}");
        *seen.entry(frames[0]).or_default() += count.parse::<u64>().expect("a count");
    }
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), ["batch-0", "batch-1", "trainer"]);
    let of =
        |stack: &str| text.lines().filter_map(|line| line.strip_prefix(stack)?.trim().parse::<u64>().ok()).sum::<u64>();
    // Workers that sleep in each batch are sampled in one, and their reader is sampled waiting.
    assert!(2 * of("batch-0;busy;batch") > seen["batch-0"] && 2 * of("trainer;starved") > seen["trainer"], "{text}");
}

#[test]
fn unwritable_outputs_are_refused_before_the_measurement() {
    let home = Home::prepared(20);
    home.write("file", "");
    for (flag, path) in
        [("--trace", "file/out"), ("--folded", "file/out"), ("--trace", "/proc/none/out"), ("--trace", ".")]
    {
        let args = ["profile", "loader", "--seconds", "600", flag, path];
        let outcome = home.run(&args.iter().chain(&SETS).copied().collect::<Vec<_>>());
        assert!(outcome.code == Some(2) && outcome.stdout.is_empty(), "{flag} {path}: {outcome}");
        assert!(outcome.stderr.contains(path), "{flag} {path}: {outcome}");
    }
    let none = home.run(&["profile", "loader", "--trace", "a", "--max-trace-events", "0"]);
    assert_eq!(none.code, Some(2), "{none}");
}

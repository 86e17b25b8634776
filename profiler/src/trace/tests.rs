//! Tests of the trace with given times and with real spans.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use prost::Message as _;
use runtime::spans::SPANS;
use tracing::{Level, enabled, trace, trace_span};
use tracing_subscriber::layer::SubscriberExt as _;

use super::buffer::{Buffer, BufferSpace, NotedEntry, State};
use super::tracks::{DrawnTracks, Mark, TrackDrawing, TrackEventKind};
use super::wire::{BEGIN, Data, Packets};
use super::*;

const MS: u64 = 1_000_000;

fn texts() -> Vec<String> {
    ["actor", "busy", "starved", "batch", "read", "pack"].map(str::to_owned).to_vec()
}

const BUSY: u32 = 1;
const STARVED: u32 = 2;
const BATCH: u32 = 3;
const READ: u32 = 4;
const PACK: u32 = 5;

fn buffer(entries: u64) -> Buffer {
    Buffer::new("thread".to_owned(), Arc::new(BufferSpace::new(entries)))
}

fn span(name: u32) -> NotedEntry {
    NotedEntry { name, makes: 0, often: false, notes: Vec::new() }
}

fn often(name: u32) -> NotedEntry {
    NotedEntry { often: true, ..span(name) }
}

fn state(buffer: &mut Buffer, at: u64, doing: u32) {
    buffer.state(at + 1, State { actor: 1, name: 0, own: true, doing, at });
}

/// Formats each event with its time: `(` starts a slice, `)` ends it.
fn words(drawn: &DrawnTracks<'_>) -> String {
    let word = |what: &TrackEventKind<'_>| match what {
        TrackEventKind::Begin(name, ..) => format!("({name}"),
        TrackEventKind::End => ")".to_owned(),
        TrackEventKind::Instant(name, ..) => (*name).to_owned(),
        TrackEventKind::Cut(count) => format!("cut {count}"),
        TrackEventKind::Count(count) => format!("= {count}"),
    };
    drawn.ops.iter().map(|op| format!("{} {}", op.at, word(&op.what))).collect::<Vec<_>>().join(", ")
}

fn drawn(buffer: Buffer, ended: u64, cut: Option<(u64, u64)>) -> String {
    let threads = [buffer];
    let texts = texts();
    let picture = TrackDrawing { threads: &threads, texts: &texts, marks: &[], names: &[].into(), ended, cut };
    words(&picture.drawn())
}

#[test]
fn slice_continues_in_the_next_state() {
    let mut one = buffer(100);
    state(&mut one, 0, BUSY);
    one.begin(2, 9, &span(BATCH));
    state(&mut one, 4, STARVED);
    state(&mut one, 6, BUSY);
    // The same state again records nothing.
    state(&mut one, 7, BUSY);
    one.end(8, 9);
    let expected = "0 (busy, 2 (batch, 4 ), 4 ), 4 (starved, 4 (batch, 6 ), 6 ), 6 (busy, 6 (batch, 8 ), 10 )";
    assert_eq!(drawn(one, 10, None), expected);
}

#[test]
fn open_spans_end_with_the_trace_and_earlier_ones_are_ignored() {
    let mut one = buffer(100);
    one.end(1, 77);
    one.begin(2, 9, &span(BATCH));
    one.begin(3, 10, &span(READ));
    assert_eq!(drawn(one, 5, None), "2 (batch, 3 (read, 5 ), 5 )");
    // The end of the outer span also ends the inner one.
    let mut one = buffer(100);
    one.begin(2, 9, &span(BATCH));
    one.begin(3, 10, &span(READ));
    one.end(4, 9);
    one.end(5, 10);
    assert_eq!(drawn(one, 6, None), "2 (batch, 3 (read, 4 ), 4 )");
}

#[test]
fn frequent_spans_are_summed_without_loss() {
    let mut one = buffer(1000);
    one.begin(0, 1, &span(BATCH));
    let mut at = 0;
    for turn in 0..100 {
        for (name, spent) in [(READ, MS / 4), (PACK, MS / 8)] {
            one.begin(at, 10 + turn, &often(name));
            at += spent;
            one.end(at, 10 + turn);
        }
    }
    // Long enough for its own slice.
    one.begin(at, 5, &often(READ));
    one.end(at + 2 * MS, 5);
    one.end(at + 2 * MS, 1);
    let one = one.split_off(at + 2 * MS);
    let of = |name: u32| one.slices.iter().filter(move |slice| slice.name == name);
    assert_eq!(of(READ).map(|slice| slice.end - slice.begin).sum::<u64>(), 27 * MS);
    assert_eq!(of(PACK).map(|slice| slice.end - slice.begin).sum::<u64>(), 12 * MS + MS / 2);
    assert!(of(READ).any(|slice| slice.begin == at && slice.end == at + 2 * MS));
    assert!(one.slices.len() < 12, "{} slices of 201 entries", one.slices.len());
    let inner: Vec<_> = one.slices.iter().filter(|slice| slice.name != BATCH).collect();
    assert!(inner.windows(2).all(|pair| pair[0].end <= pair[1].begin), "one after another");
}

#[test]
fn limit_stops_all_threads_at_one_moment() {
    let room = Arc::new(BufferSpace::new(300));
    let mut two = ["a", "b"].map(|name| Buffer::new(name.to_owned(), Arc::clone(&room)));
    for at in 0..1000 {
        for (thread, buffer) in two.iter_mut().enumerate() {
            buffer.begin(at, at + thread as u64, &span(BATCH));
            buffer.end(at, at + thread as u64);
        }
    }
    let spent_at = room.spent_at().expect("300 is less than 2000");
    let kept: Vec<usize> = two.iter().map(|buffer| buffer.slices.len()).collect();
    let left_out: u64 = two.iter().map(|buffer| buffer.left_out).sum();
    assert_eq!(kept.iter().sum::<usize>() as u64 + left_out, 2000);
    assert!(kept.iter().sum::<usize>() <= 300 && kept.iter().all(|kept| *kept > 40), "{kept:?}");
    let latest = two.iter().flat_map(|buffer| &buffer.slices).map(|slice| slice.begin).max();
    assert!(latest <= Some(spent_at), "no entry is later than {spent_at}");
    assert_eq!(drawn(buffer(0), 9, Some((7, 5))), "5 cut 7");
}

#[test]
fn marks_have_a_separate_track() {
    let threads = [buffer(1)];
    let texts = texts();
    let mark = |name: &str, from, to| Mark { name: name.to_owned(), from, to };
    let marks = [mark("warm-up", 1, 3), mark("measured", 3, 8)];
    let picture =
        TrackDrawing { threads: &threads, texts: &texts, marks: &marks, names: &[].into(), ended: 9, cut: None };
    assert_eq!(words(&picture.drawn()), "1 (warm-up, 3 ), 3 (measured, 8 )");
}

/// Starts a trace as soon as no other test records one.
fn begun(limits: Limits) -> Trace {
    loop {
        match Trace::begin(limits) {
            Ok(trace) => return trace,
            Err(_) => sleep(Duration::from_millis(1)),
        }
    }
}

fn works() {
    let _step = trace_span!(target: SPANS, "step", step = 7_u64, makes = 3_u64).entered();
    let _wait = trace_span!(target: SPANS, "kernel", what = "attention").entered();
    trace!(target: SPANS, takes = 3_u64, what = "batch");
    // Span of another target.
    let _other = trace_span!("other").entered();
}

#[test]
fn spans_are_recorded_only_during_a_trace() {
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer()), || {
        let named = std::thread::Builder::new().name("not recorded".to_owned());
        named.spawn(works).expect("a thread").join().expect("no panic");
        for _ in 0..2 {
            works();
            let trace = begun(Limits::default());
            assert!(enabled!(target: SPANS, Level::TRACE) && !enabled!(target: "else", Level::ERROR));
            assert!(Trace::begin(Limits::default()).is_err(), "one at a time");
            works();
            let recorded = trace.end();
            works();
            let mut bytes = Vec::new();
            recorded.perfetto(&mut bytes).expect("memory takes all");
            let packets = Packets::decode(&*bytes).expect("packets").packet;
            let mut names = Vec::new();
            let mut arrows = [0, 0];
            let mut known = std::collections::BTreeMap::new();
            for packet in packets {
                for named in packet.interned.into_iter().flat_map(|interned| interned.events) {
                    known.insert(named.number, named.name);
                }
                if let Some(Data::Event(event)) = packet.data {
                    arrows = [arrows[0] + event.flows.len(), arrows[1] + event.ending_flows.len()];
                    if event.kind == BEGIN {
                        names.push(known[&event.name].clone());
                    }
                }
            }
            assert_eq!((names, arrows), (vec!["step".to_owned(), "attention".to_owned()], [1, 1]));
            assert_eq!((recorded.entries(), recorded.left_out()), (3, None));
        }
        assert!(!enabled!(target: SPANS, Level::TRACE), "the trace has ended");
    });
}

#[test]
fn stack_only_trace_records_named_stacks_and_no_entries() {
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer()), || {
        for _ in 0..5 {
            let trace = begun(Limits { entries: 0, stacks: true });
            {
                let _step = trace_span!(target: SPANS, "a;b", step = 7_u64).entered();
                sleep(Duration::from_millis(20));
            }
            let recorded = trace.end();
            assert_eq!((recorded.entries(), recorded.left_out()), (0, None));
            let folded = recorded.folded();
            if folded.lines().any(|line| line.contains(";a,b ")) {
                return;
            }
        }
        panic!("no sample in 20 ms");
    });
}

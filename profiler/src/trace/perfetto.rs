//! Encoder of tracks as Perfetto packets.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Instant;

use prost::Message as _;
use runtime::spans::nanoseconds;
use rustix::time::{ClockId, clock_gettime};

use super::buffer::{Note, Value};
use super::tracks::{DrawnTracks, Op, TrackEventKind};
use super::wire::{
    AnnotationValue, BEGIN, BOOTTIME, CLEARED, COUNT, COUNTER, ClockReading, ClockSnapshot, CounterDescriptor, Data,
    DebugAnnotation, END, EXPLICIT, INSTANT, InternedData, InternedName, MONOTONIC, NEEDED, Packets, ProcessDescriptor,
    REALTIME, TracePacket, TracePacketDefaults, TrackDescriptor, TrackEvent,
};

/// Sequence number of the only writer.
const SEQUENCE: u32 = 1;

/// Size of a write in bytes.
const BYTES: usize = 1 << 18;

/// Writes tracks and their events.
pub(super) fn write(drawn: &DrawnTracks<'_>, texts: &[String], out: &mut impl Write) -> io::Result<()> {
    let mut writer = Writer::new(texts, out);
    writer.head()?;
    for (at, track) in drawn.tracks.iter().enumerate() {
        let counter = track.capacity.map(|places| CounterDescriptor { unit: COUNT, unit_name: format!("of {places}") });
        let descriptor = TrackDescriptor {
            uuid: writer.uuid(at),
            name: track.name.clone(),
            parent: writer.process,
            counter,
            rank: i32::try_from(at).unwrap_or(i32::MAX),
            ..TrackDescriptor::default()
        };
        writer.packet(TracePacket { data: Some(Data::Track(descriptor)), ..TracePacket::default() })?;
    }
    for op in &drawn.ops {
        writer.happens(op)?;
    }
    writer.flush_packets()
}

/// Interned names by number. Each is written once.
#[derive(Default)]
struct Names<'a> {
    known: BTreeMap<&'a str, u64>,
    unwritten: Vec<InternedName>,
}

impl<'a> Names<'a> {
    /// Returns the number of a name. Numbers start at 1: 0 means no name.
    fn number(&mut self, name: &'a str) -> u64 {
        let next = self.known.len() as u64 + 1;
        *self.known.entry(name).or_insert_with(|| {
            self.unwritten.push(InternedName { number: next, name: name.to_owned() });
            next
        })
    }
}

struct Writer<'a, W> {
    texts: &'a [String],
    events: Names<'a>,
    annotations: Names<'a>,
    /// Process id, for the track descriptors.
    process: u64,
    /// Offset from this program's clock to the monotonic clock.
    offset: u64,
    bytes: Vec<u8>,
    out: &'a mut W,
}

impl<'a, W: Write> Writer<'a, W> {
    fn new(texts: &'a [String], out: &'a mut W) -> Self {
        let offset = clock(ClockId::Monotonic).saturating_sub(nanoseconds(Instant::now()));
        // Distinct track ids allow traces of two processes to be concatenated.
        let process = u64::from(std::process::id()) << 32;
        let events = Names::default();
        let annotations = Names::default();
        Self { texts, events, annotations, process, offset, bytes: Vec::new(), out }
    }

    fn uuid(&self, track: usize) -> u64 {
        self.process + 1 + track as u64
    }

    /// Writes the clock snapshot and the process descriptor, which readers need first.
    fn head(&mut self) -> io::Result<()> {
        let now = |id, of| ClockReading { id, timestamp: clock(of) };
        let clocks = vec![
            now(MONOTONIC, ClockId::Monotonic),
            now(BOOTTIME, ClockId::Boottime),
            now(REALTIME, ClockId::Realtime),
        ];
        let defaults = Some(TracePacketDefaults { clock: MONOTONIC });
        let data = Some(Data::Clocks(ClockSnapshot { clocks, primary: MONOTONIC }));
        self.packet(TracePacket { flags: CLEARED, defaults, data, ..TracePacket::default() })?;
        let pid = i32::try_from(std::process::id()).unwrap_or(0);
        let process = TrackDescriptor {
            uuid: self.process,
            process: Some(ProcessDescriptor { pid, name: "cloze".to_owned() }),
            children: EXPLICIT,
            description: "a track for each actor: busy, starved (no input) or blocked (output queue full)".to_owned(),
            ..TrackDescriptor::default()
        };
        self.packet(TracePacket { data: Some(Data::Track(process)), ..TracePacket::default() })
    }

    fn happens(&mut self, op: &Op<'a>) -> io::Result<()> {
        let event = TrackEvent { track: self.uuid(op.track), ..TrackEvent::default() };
        let event = match &op.what {
            TrackEventKind::Begin(name, notes, flows) => TrackEvent {
                kind: BEGIN,
                name: self.events.number(name),
                annotations: self.annotated(notes),
                flows: flows.clone(),
                ..event
            },
            TrackEventKind::End => TrackEvent { kind: END, ..event },
            TrackEventKind::Instant(name, notes, flow) => TrackEvent {
                kind: INSTANT,
                name: self.events.number(name),
                annotations: self.annotated(notes),
                ending_flows: flow.iter().copied().collect(),
                ..event
            },
            TrackEventKind::Cut(dropped) => TrackEvent {
                kind: INSTANT,
                name: self.events.number("trace limit reached"),
                annotations: self.annotated(&[("dropped_entries", Value::Number(*dropped))]),
                ..event
            },
            TrackEventKind::Count(count) => {
                TrackEvent { kind: COUNTER, count: Some(i64::try_from(*count).unwrap_or(i64::MAX)), ..event }
            }
        };
        let events = &mut self.events.unwritten;
        let annotations = &mut self.annotations.unwritten;
        let is_written = events.is_empty() && annotations.is_empty();
        let interned = InternedData { events: std::mem::take(events), annotations: std::mem::take(annotations) };
        self.packet(TracePacket {
            timestamp: Some(self.offset + op.at),
            interned: (!is_written).then_some(interned),
            data: Some(Data::Event(event)),
            ..TracePacket::default()
        })
    }

    fn annotated(&mut self, notes: &[Note]) -> Vec<DebugAnnotation> {
        let note = |(name, value): &Note| {
            let value = match value {
                Value::Number(number) => AnnotationValue::Number(*number),
                Value::Signed(number) => AnnotationValue::Signed(*number),
                Value::Real(number) => AnnotationValue::Real(*number),
                Value::Yes(yes) => AnnotationValue::Yes(*yes),
                Value::Text(text) => AnnotationValue::Text(self.texts.get(*text as usize).cloned().unwrap_or_default()),
            };
            DebugAnnotation { name: self.annotations.number(name), value: Some(value) }
        };
        notes.iter().map(note).collect()
    }

    fn packet(&mut self, packet: TracePacket) -> io::Result<()> {
        // All packets except the first depend on interned data.
        let flags = if packet.flags == 0 { NEEDED } else { packet.flags };
        let packet = TracePacket { sequence: SEQUENCE, flags, ..packet };
        Packets { packet: vec![packet] }.encode(&mut self.bytes).map_err(io::Error::other)?;
        if self.bytes.len() >= BYTES { self.flush_packets() } else { Ok(()) }
    }

    fn flush_packets(&mut self) -> io::Result<()> {
        self.out.write_all(&self.bytes)?;
        self.bytes.clear();
        Ok(())
    }
}

/// Returns the nanoseconds of a system clock.
fn clock(id: ClockId) -> u64 {
    let now = clock_gettime(id);
    let [seconds, nanoseconds] = [now.tv_sec, now.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

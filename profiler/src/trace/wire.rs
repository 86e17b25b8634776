//! Perfetto's messages, as far as they are written here.
//!
//! # What
//! A trace is packets: what tracks there are, and what happens on them.
//!
//! # Why
//! By hand: there is no crate of Perfetto's own that has them without its C++ library, and numbers of published fields do not
//! change.
//!
//! # Definition
//! Fields of `perfetto.protos`, by their numbers:
//!
//! | message | fields |
//! |---|---|
//! | `Trace` | 1 packets |
//! | `TracePacket` | 6 clock snapshot, 8 timestamp, 10 trusted sequence, 11 track event, 12 interned data, 13 flags of the sequence, 58 clock of the timestamp, 59 defaults, 60 track descriptor |
//! | `ClockSnapshot` | 1 clocks: 1 id, 2 timestamp; 2 the clock of the trace |
//! | `TracePacketDefaults` | 58 clock of timestamps |
//! | `TrackDescriptor` | 1 uuid, 2 name, 3 process, 5 parent, 8 counter, 11 order of children, 12 rank among siblings, 14 description |
//! | `ProcessDescriptor` | 1 pid, 6 name |
//! | `CounterDescriptor` | 3 unit (2: count), 6 its name |
//! | `TrackEvent` | 4 annotations, 9 type (1 begin, 2 end, 3 instant, 4 counter), 10 interned name, 11 track, 30 counter's value, 47 flows and 48 flows that end, both fixed64 |
//! | `DebugAnnotation` | 1 interned name, 2 bool, 3 uint, 4 int, 5 double, 6 string |
//! | `InternedData` | 2 names of events, 3 names of annotations: 1 number, 2 name |
//!
//! # Reference
//! github.com/google/perfetto, `protos/perfetto/trace`, by `perfetto.protos` 0.59 of `PyPI`, which `make test-readers` has decode what
//! is written.

use prost::{Message, Oneof};

/// `BUILTIN_CLOCK_REALTIME`, `_MONOTONIC`, `_BOOTTIME`.
pub(super) const REALTIME: u32 = 1;
pub(super) const MONOTONIC: u32 = 3;
pub(super) const BOOTTIME: u32 = 6;

/// `SEQ_INCREMENTAL_STATE_CLEARED` and `SEQ_NEEDS_INCREMENTAL_STATE`.
pub(super) const CLEARED: u32 = 1;
pub(super) const NEEDED: u32 = 2;

/// `TYPE_SLICE_BEGIN`, `TYPE_SLICE_END`, `TYPE_INSTANT`, `TYPE_COUNTER`.
pub(super) const BEGIN: i32 = 1;
pub(super) const END: i32 = 2;
pub(super) const INSTANT: i32 = 3;
pub(super) const COUNTER: i32 = 4;

/// `ChildTracksOrdering.EXPLICIT`.
pub(super) const EXPLICIT: i32 = 3;

/// `CounterDescriptor.Unit.UNIT_COUNT`.
pub(super) const COUNT: i32 = 2;

/// Packets; files of them can be put one behind another.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Packets {
    #[prost(message, repeated, tag = "1")]
    pub(super) packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Packet {
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    pub(super) sequence: u32,
    #[prost(uint32, tag = "13")]
    pub(super) flags: u32,
    #[prost(message, optional, tag = "12")]
    pub(super) interned: Option<Interned>,
    #[prost(message, optional, tag = "59")]
    pub(super) defaults: Option<Defaults>,
    #[prost(oneof = "Data", tags = "6, 11, 60")]
    pub(super) data: Option<Data>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Data {
    #[prost(message, tag = "6")]
    Clocks(Clocks),
    #[prost(message, tag = "11")]
    Event(Event),
    #[prost(message, tag = "60")]
    Track(Descriptor),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Clocks {
    #[prost(message, repeated, tag = "1")]
    pub(super) clocks: Vec<ClockNow>,
    #[prost(uint32, tag = "2")]
    pub(super) primary: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ClockNow {
    #[prost(uint32, tag = "1")]
    pub(super) id: u32,
    #[prost(uint64, tag = "2")]
    pub(super) timestamp: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Defaults {
    #[prost(uint32, tag = "58")]
    pub(super) clock: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Descriptor {
    #[prost(uint64, tag = "1")]
    pub(super) uuid: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(message, optional, tag = "3")]
    pub(super) process: Option<Process>,
    #[prost(uint64, tag = "5")]
    pub(super) parent: u64,
    #[prost(message, optional, tag = "8")]
    pub(super) counter: Option<Counter>,
    #[prost(int32, tag = "11")]
    pub(super) children: i32,
    #[prost(int32, tag = "12")]
    pub(super) rank: i32,
    #[prost(string, tag = "14")]
    pub(super) description: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Process {
    #[prost(int32, tag = "1")]
    pub(super) pid: i32,
    #[prost(string, tag = "6")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Counter {
    #[prost(int32, tag = "3")]
    pub(super) unit: i32,
    #[prost(string, tag = "6")]
    pub(super) unit_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    #[prost(int32, tag = "9")]
    pub(super) kind: i32,
    #[prost(uint64, tag = "11")]
    pub(super) track: u64,
    #[prost(uint64, tag = "10")]
    pub(super) name: u64,
    #[prost(message, repeated, tag = "4")]
    pub(super) annotations: Vec<Annotation>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub(super) flows: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub(super) ending_flows: Vec<u64>,
    #[prost(int64, optional, tag = "30")]
    pub(super) count: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Annotation {
    #[prost(uint64, tag = "1")]
    pub(super) name: u64,
    #[prost(oneof = "Noted", tags = "2, 3, 4, 5, 6")]
    pub(super) value: Option<Noted>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Noted {
    #[prost(bool, tag = "2")]
    Yes(bool),
    #[prost(uint64, tag = "3")]
    Number(u64),
    #[prost(int64, tag = "4")]
    Signed(i64),
    #[prost(double, tag = "5")]
    Real(f64),
    #[prost(string, tag = "6")]
    Text(String),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Interned {
    #[prost(message, repeated, tag = "2")]
    pub(super) events: Vec<Named>,
    #[prost(message, repeated, tag = "3")]
    pub(super) annotations: Vec<Named>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Named {
    #[prost(uint64, tag = "1")]
    pub(super) number: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
}

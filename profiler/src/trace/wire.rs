//! Subset of Perfetto's messages: `perfetto.protos`, with its names and numbers.
//!
//! # What
//! A trace is a list of packets: track descriptors, and events on the tracks.
//!
//! # Why
//! The messages are derived by `prost`, not generated. The schema has thousands of messages, and numbers of published
//! fields do not change.
//!
//! # Reference
//! github.com/google/perfetto, `protos/perfetto/trace`. `make test-readers` decodes the output with `perfetto.protos`
//! 0.59 of `PyPI`.

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

/// List of packets. Trace files can be concatenated.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Packets {
    #[prost(message, repeated, tag = "1")]
    pub(super) packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    pub(super) sequence: u32,
    #[prost(uint32, tag = "13")]
    pub(super) flags: u32,
    #[prost(message, optional, tag = "12")]
    pub(super) interned: Option<InternedData>,
    #[prost(message, optional, tag = "59")]
    pub(super) defaults: Option<TracePacketDefaults>,
    #[prost(oneof = "Data", tags = "6, 11, 60")]
    pub(super) data: Option<Data>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Data {
    #[prost(message, tag = "6")]
    Clocks(ClockSnapshot),
    #[prost(message, tag = "11")]
    Event(TrackEvent),
    #[prost(message, tag = "60")]
    Track(TrackDescriptor),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub(super) clocks: Vec<ClockReading>,
    #[prost(uint32, tag = "2")]
    pub(super) primary: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ClockReading {
    #[prost(uint32, tag = "1")]
    pub(super) id: u32,
    #[prost(uint64, tag = "2")]
    pub(super) timestamp: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacketDefaults {
    #[prost(uint32, tag = "58")]
    pub(super) clock: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    pub(super) uuid: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(message, optional, tag = "3")]
    pub(super) process: Option<ProcessDescriptor>,
    #[prost(uint64, tag = "5")]
    pub(super) parent: u64,
    #[prost(message, optional, tag = "8")]
    pub(super) counter: Option<CounterDescriptor>,
    #[prost(int32, tag = "11")]
    pub(super) children: i32,
    #[prost(int32, tag = "12")]
    pub(super) rank: i32,
    #[prost(string, tag = "14")]
    pub(super) description: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessDescriptor {
    #[prost(int32, tag = "1")]
    pub(super) pid: i32,
    #[prost(string, tag = "6")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CounterDescriptor {
    #[prost(int32, tag = "3")]
    pub(super) unit: i32,
    #[prost(string, tag = "6")]
    pub(super) unit_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    #[prost(int32, tag = "9")]
    pub(super) kind: i32,
    #[prost(uint64, tag = "11")]
    pub(super) track: u64,
    #[prost(uint64, tag = "10")]
    pub(super) name: u64,
    #[prost(message, repeated, tag = "4")]
    pub(super) annotations: Vec<DebugAnnotation>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub(super) flows: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub(super) ending_flows: Vec<u64>,
    #[prost(int64, optional, tag = "30")]
    pub(super) count: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DebugAnnotation {
    #[prost(uint64, tag = "1")]
    pub(super) name: u64,
    #[prost(oneof = "AnnotationValue", tags = "2, 3, 4, 5, 6")]
    pub(super) value: Option<AnnotationValue>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum AnnotationValue {
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
pub(super) struct InternedData {
    #[prost(message, repeated, tag = "2")]
    pub(super) events: Vec<InternedName>,
    #[prost(message, repeated, tag = "3")]
    pub(super) annotations: Vec<InternedName>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedName {
    #[prost(uint64, tag = "1")]
    pub(super) number: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
}

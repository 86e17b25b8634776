//! How much anybody may take of a server, so that a run never feels it.

use std::time::Duration;

/// Connections at once; one more is told to come back.
pub(crate) const CONNECTIONS: u32 = 64;

/// Places beyond them for one short request each: a probe is let in whoever else is there.
pub(crate) const SHORT: u32 = 16;

/// How long such a request may take to be said.
pub(crate) const SHORT_TIME: Duration = Duration::from_secs(1);

/// How long a connection may go on asking: whoever has more to ask comes again, behind others.
pub(crate) const AGE: Duration = Duration::from_secs(60);

/// How long somebody may listen to events at a time: who never reads what is sent keeps no place.
pub(crate) const LISTEN_TIME: Duration = Duration::from_secs(600);

/// How long somebody waits behind another who is served with what takes long.
pub(crate) const QUEUE_TIME: Duration = Duration::from_secs(2);

/// Of them, those that listen to events.
pub(crate) const LISTENERS: usize = 16;

/// Bytes of a body: a note, a filter.
pub(crate) const BODY_BYTES: usize = 4096;

/// Bytes of a request's head, which are all that a connection may keep in memory.
pub(crate) const HEAD_BYTES: usize = 16 << 10;

/// How long a head may take, and how long a connection may be idle.
pub(crate) const HEAD_TIME: Duration = Duration::from_secs(10);

/// How long an answer may take to be made.
pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(30);

/// How long a client may take none of an answer that there is.
pub(crate) const WRITE_TIME: Duration = Duration::from_secs(15);

/// Between two signs of life to who listens.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Rows that are shown at once.
pub(crate) const ROWS: usize = 16;

//! Limits of the server, so that clients cannot slow down a run.

use std::time::Duration;

/// Maximum number of connections. A further client gets status 503 with `Retry-After`.
pub(crate) const CONNECTIONS: u32 = 64;

/// Additional connections for one short request each, so that probes are answered when [`CONNECTIONS`] is reached.
pub(crate) const SHORT: u32 = 16;

/// Time limit to receive the head of such a short request.
pub(crate) const SHORT_TIME: Duration = Duration::from_secs(1);

/// Maximum age of a connection. A client with further requests must reconnect.
pub(crate) const AGE: Duration = Duration::from_secs(60);

/// Maximum duration of an event stream, so that a client that never reads cannot keep its slot.
pub(crate) const LISTEN_TIME: Duration = Duration::from_secs(600);

/// Maximum time that a slow request waits for another slow request.
pub(crate) const QUEUE_TIME: Duration = Duration::from_secs(2);

/// Maximum number of connections that stream events.
pub(crate) const LISTENERS: usize = 16;

/// Maximum size of a request body (a note or a log filter).
pub(crate) const BODY_BYTES: usize = 4096;

/// Maximum size of a request head; also the read buffer of a connection.
pub(crate) const HEAD_BYTES: usize = 16 << 10;

/// Time limit to receive a request head; also the idle timeout of a connection.
pub(crate) const HEAD_TIME: Duration = Duration::from_secs(10);

/// Time limit to produce a response.
pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Maximum time in which a client reads no byte of a pending response.
pub(crate) const WRITE_TIME: Duration = Duration::from_secs(15);

/// Interval of keep-alive messages in an event stream.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Maximum number of rows per request.
pub(crate) const ROWS: usize = 16;

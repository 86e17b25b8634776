//! What the kernel counts of a thread, whatever it says of itself.

use std::time::Duration;

/// Time on a processor, and time in which a thread was ready and had none (`schedstat` of Linux' `/proc`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduled {
    /// On a processor.
    pub ran: Duration,
    /// Ready, and others had them all.
    pub queued: Duration,
}

impl Scheduled {
    /// Of a thread of this process, by the kernel's number; none once it has ended, or where nobody counts.
    #[must_use]
    pub fn of(thread: u32) -> Option<Self> {
        Self::read(&format!("/proc/self/task/{thread}/schedstat"))
    }

    /// Of the thread that asks.
    #[must_use]
    pub fn here() -> Option<Self> {
        Self::read("/proc/thread-self/schedstat")
    }

    fn read(path: &str) -> Option<Self> {
        let text = std::fs::read_to_string(path).ok()?;
        let mut times = text.split_whitespace().map(|ns| ns.parse().map(Duration::from_nanos));
        Some(Self { ran: times.next()?.ok()?, queued: times.next()?.ok()? })
    }
}

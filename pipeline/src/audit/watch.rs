//! An audit of a run under way: of some of its batches, as they come.

use schemas::Batch;

use super::Audit;
use crate::error::Result;

/// Counts whether the views do as they promise, on some of the batches that a process learns from.
#[derive(Debug)]
pub struct AuditWatch {
    audit: Audit,
    received: u64,
}

impl AuditWatch {
    /// The first batches are all audited: that settles a share of 15 % to a thousandth.
    const FIRST: u64 = 64;

    /// Then one of so many is: what goes wrong later is seen, and nobody waits for it.
    const EVERY: u64 = 100;

    /// A watch that has seen nothing, over an audit that has not either.
    #[must_use]
    pub fn new(audit: Audit) -> Self {
        Self { audit, received: 0 }
    }

    /// Looks at one more batch, before it is learned from. Returns the audit when there is something to say: once, when
    /// the first batches are counted.
    ///
    /// # Errors
    /// [`Error::Drift`](crate::Error::Drift) for a view that breaks its promise.
    pub fn look(&mut self, batch: &Batch) -> Result<Option<&Audit>> {
        self.received += 1;
        if self.received > Self::FIRST && !self.received.is_multiple_of(Self::EVERY) {
            return Ok(None);
        }
        self.audit.add(batch);
        self.audit.check()?;
        Ok((self.received == Self::FIRST).then_some(&self.audit))
    }
}

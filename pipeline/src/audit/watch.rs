//! Audit of a sample of the batches of a running training.

use schemas::Batch;

use super::Audit;
use crate::error::Result;

/// Checks on some of the batches of a process that views keep their rules and laws.
#[derive(Debug)]
pub struct AuditWatch {
    audit: Audit,
    received: u64,
}

impl AuditWatch {
    /// Number of first batches that are all audited. They estimate a share of 15 % to 0.1 percentage points.
    const FIRST: u64 = 64;

    /// Interval of audited batches after the first ones. It detects later faults at negligible cost.
    const EVERY: u64 = 100;

    /// Creates a watch over an audit without counts.
    #[must_use]
    pub fn new(audit: Audit) -> Self {
        Self { audit, received: 0 }
    }

    /// Observes one more batch before it is trained on. Returns the audit once, when the first batches are counted.
    ///
    /// # Errors
    /// [`Error::Drift`](crate::Error::Drift) for a view that breaks a rule or a law.
    pub fn check(&mut self, batch: &Batch) -> Result<Option<&Audit>> {
        self.received += 1;
        if self.received > Self::FIRST && !self.received.is_multiple_of(Self::EVERY) {
            return Ok(None);
        }
        self.audit.add(batch);
        self.audit.check()?;
        Ok((self.received == Self::FIRST).then_some(&self.audit))
    }
}

//! Delivery of log records: how many wait, and how many are lost. The SDK does not report either.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry::logs::Logger as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogExporter, SdkLogRecord, SdkLogger};

/// Counts of the log records of one process.
#[derive(Debug)]
pub(super) struct DeliveryCounts {
    /// Records that may be pending at once: the length of the SDK's queue.
    capacity: u64,
    /// Records that are queued or being sent.
    pending: AtomicU64,
    /// Records that the newest response rejected.
    rejected: AtomicU64,
    lost: AtomicU64,
}

impl DeliveryCounts {
    pub(super) fn new(capacity: usize) -> Self {
        let zero = || AtomicU64::new(0);
        Self { capacity: capacity as u64, pending: zero(), rejected: zero(), lost: zero() }
    }

    /// Records that did not reach the collector.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Records that are queued or being sent.
    pub(super) fn pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }

    /// Notes that the collector rejected records of a batch that it accepted.
    pub(super) fn reject(&self, rejected: u64) {
        self.rejected.store(rejected, Ordering::Relaxed);
    }

    /// Returns whether there is room for a record; without room the record is lost.
    fn try_reserve(&self) -> bool {
        let one_more = |pending: u64| (pending < self.capacity).then_some(pending + 1);
        let is_admitted = self.pending.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok();
        if !is_admitted {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        is_admitted
    }

    /// Notes the end of a batch.
    fn finish(&self, records: u64, is_delivered: bool) {
        // No collector rejects more records than it received.
        let rejected = self.rejected.swap(0, Ordering::Relaxed).min(records);
        self.lost.fetch_add(if is_delivered { rejected } else { records }, Ordering::Relaxed);
        self.pending.fetch_sub(records, Ordering::Relaxed);
    }
}

/// Bounded queue of log records. Adding a record never blocks.
#[derive(Clone, Debug)]
pub(super) struct LogQueue {
    pub(super) logger: SdkLogger,
    pub(super) counts: Arc<DeliveryCounts>,
}

impl LogQueue {
    /// Queues a record, or counts it as lost.
    pub(super) fn push(&self, record: SdkLogRecord) {
        if self.counts.try_reserve() {
            self.logger.emit(record);
        }
    }
}

/// Log exporter that counts what happens to each batch.
#[derive(Debug)]
pub(super) struct CountingExporter<E> {
    pub(super) exporter: E,
    pub(super) counts: Arc<DeliveryCounts>,
}

impl<E: LogExporter> LogExporter for CountingExporter<E> {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        let records = batch.iter().count() as u64;
        let result = self.exporter.export(batch).await;
        self.counts.finish(records, result.is_ok());
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

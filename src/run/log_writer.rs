//! Writer of the log of a run: lines are queued, and a thread puts them.
//!
//! # What
//! Owns a [`Log`] on a thread. A push queues a line. A flush is queued behind the lines before it, and is answered when
//! they are durable.
//!
//! # Why
//! A put to a bucket takes some round trips. The training loop logs each report and each checkpoint, and must not wait
//! for them.
//!
//! # Definition
//! Lines are put in the order of their pushes. A failed put is an error of [`check`](LogWriter::check), unless its lines
//! may wait for space on the disk. Its lines are put with later ones; a flush that succeeds has put all lines before it.
//! A push waits if [`QUEUE`] lines are queued.
//!
//! Dropping a writer begins no put, discards the queue and waits for a put in progress. So the owner of the run's lock
//! can release the lock after it: no write follows.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runtime::{CancelSource, CancelToken, NamedThread, cancel_pair};
use store::Log;

/// Capacity of the queue: 17 minutes of lines at one report per second. A report has some kilobytes.
const QUEUE: usize = 1024;

/// Log that a thread writes.
pub(super) struct LogWriter {
    /// `None` only while it is dropped.
    queue: Option<SyncSender<Request>>,
    failure: Failure,
    discard: CancelSource,
    /// `None` after a panic was returned.
    thread: Option<NamedThread<()>>,
}

enum Request {
    Line(String),
    Flush(SyncSender<io::Result<()>>),
}

/// First error of a put, until it is returned. The first is the cause of the others.
#[derive(Clone, Default)]
struct Failure(Arc<Mutex<Option<io::Error>>>);

/// Flush in progress.
#[must_use]
pub struct PendingFlush(Receiver<io::Result<()>>);

impl LogWriter {
    /// Starts the thread.
    pub(super) fn start(log: Log) -> io::Result<Self> {
        let (queue, requests) = sync_channel(QUEUE);
        let (discard, discarded) = cancel_pair();
        let failure = Failure::default();
        let noted = failure.clone();
        let thread = runtime::spawn("log", move || write(log, &requests, &noted, &discarded));
        let thread = Some(thread.map_err(io::Error::other)?);
        Ok(Self { queue: Some(queue), failure, discard, thread })
    }

    /// Queues a line. [`check`](Self::check) returns its error.
    pub(super) fn push(&mut self, line: String) {
        if let Err(error) = self.request(Request::Line(line)) {
            self.failure.note(error);
        }
    }

    /// Begins to put all lines that were pushed.
    pub(super) fn begin_flush(&mut self) -> io::Result<PendingFlush> {
        let (answer, pending) = sync_channel(1);
        self.request(Request::Flush(answer))?;
        Ok(PendingFlush(pending))
    }

    /// Returns the first error of a put since the last call, if any. Does not wait.
    pub(super) fn check(&self) -> io::Result<()> {
        self.failure.lock().take().map_or(Ok(()), Err)
    }

    fn request(&mut self, request: Request) -> io::Result<()> {
        if self.queue.as_ref().is_some_and(|queue| queue.send(request).is_ok()) {
            return Ok(());
        }
        let outcome = self.thread.take().map(NamedThread::join);
        Err(outcome.and_then(Result::err).map_or_else(ended, io::Error::other))
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.discard.cancel();
        drop(self.queue.take());
        // The panic of the thread is on stderr.
        let _ = self.thread.take().map(NamedThread::join);
    }
}

impl PendingFlush {
    /// Waits until the lines are durable. Returns the error of their put otherwise, also if the disk is full.
    pub fn wait(self) -> io::Result<()> {
        self.0.recv().unwrap_or_else(|_| Err(ended()))
    }
}

impl Failure {
    fn note(&self, error: io::Error) {
        self.lock().get_or_insert(error);
    }

    fn lock(&self) -> MutexGuard<'_, Option<io::Error>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves requests until the queue closes or is discarded.
fn write(mut log: Log, requests: &Receiver<Request>, failure: &Failure, discarded: &CancelToken) {
    for request in requests {
        if discarded.is_cancelled() {
            return;
        }
        match request {
            Request::Line(line) => log.push(&line).unwrap_or_else(|error| failure.note(error)),
            // The run may have ended without waiting for the answer.
            Request::Flush(answer) => drop(answer.send(log.flush())),
        }
    }
}

/// Error of a request that the thread does not answer.
fn ended() -> io::Error {
    io::Error::other("the thread of the log has ended; its lines since the newest put are lost")
}

#[cfg(test)]
mod tests;

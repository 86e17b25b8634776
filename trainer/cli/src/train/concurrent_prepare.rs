//! `cloze train --prepare`: preparation on a separate thread.

use std::sync::mpsc::{Receiver, RecvError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use cloze::config::Parsed;
use cloze::config::corpora::NamedCorpus;
use cloze::plan::CoreSplit;
use pipeline::prepare::{Preparation, PrepareConfig, PrepareOptions, PrepareSummary};
use runtime::{CancelSource, CancelToken, NamedThread, cancel_pair};
use telemetry::terminal::note;
use telemetry::{Clock, Event, EventKind, Observer};
use trainer::training::RunOutcome;

/// Interval between progress lines.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// Running preparation in this process.
pub(super) struct ConcurrentPrepare {
    thread: Option<NamedThread<pipeline::Result<()>>>,
    /// Stops the preparation.
    cancel_source: CancelSource,
    /// Cancelled when the preparation fails. Held here because dropping the last source cancels.
    _failure: CancelSource,
    failed: CancelToken,
    /// Receives a message when the part list is written. Closed when the preparation ends.
    listed: Receiver<()>,
}

impl ConcurrentPrepare {
    /// Starts the preparation. If the training runs at the same time, the preparation uses its share of the cores.
    pub(super) fn start(parsed: Parsed, is_concurrent: bool) -> anyhow::Result<Self> {
        let workers = CoreSplit::new(&parsed.config).prepare;
        let mut corpora = parsed.into_corpora(None)?;
        if is_concurrent {
            for corpus in &mut corpora {
                corpus.prepare.workers = Some(workers);
            }
        }
        let (cancel_source, stop) = cancel_pair();
        let (failure, failed) = cancel_pair();
        let (sender, listed) = sync_channel(1);
        let mut observer_state = PrepareObserver { listed: Some(sender), last_progress: None };
        let on_failure = failure.clone();
        let thread = runtime::spawn("preparation", move || {
            let prepare =
                |corpus: NamedCorpus| prepare(&corpus.prepare, is_concurrent, &stop, &mut observer_state).map(drop);
            let done = corpora.into_iter().try_for_each(prepare);
            if done.is_err() {
                on_failure.cancel();
            }
            done
        })?;
        Ok(Self { thread: Some(thread), cancel_source, _failure: failure, failed, listed })
    }

    /// Waits until the part list is written.
    pub(super) fn wait_for_list(&mut self) -> anyhow::Result<()> {
        match self.listed.recv() {
            Ok(()) => Ok(()),
            Err(RecvError) => self.join(),
        }
    }

    /// Waits for the end of the preparation.
    pub(super) fn wait_for_end(&mut self) -> anyhow::Result<()> {
        self.join()
    }

    /// Returns the error of a failed preparation. Does not wait.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        if self.failed.is_cancelled() { self.join() } else { Ok(()) }
    }

    /// Returns a token that is cancelled when the preparation fails.
    pub(super) fn failed(&self) -> CancelToken {
        self.failed.clone()
    }

    /// Stops the preparation and ignores its result.
    pub(super) fn leave(mut self) {
        self.cancel_source.cancel();
        // The caller returns its own error, and the preparation has logged its messages.
        let _ = self.join();
    }

    /// Stops the preparation after the training. If the preparation failed, its error comes first, because it caused
    /// the training to stop.
    pub(super) fn end(mut self, outcome: anyhow::Result<RunOutcome>) -> anyhow::Result<RunOutcome> {
        self.cancel_source.cancel();
        let Err(error) = self.join() else { return outcome };
        if matches!(error.downcast_ref(), Some(pipeline::Error::Stopped)) {
            note(
                "the preparation was stopped with the training; to continue it, run `cloze prepare` or the same command",
            );
            return outcome;
        }
        match outcome {
            Ok(outcome) => {
                note(format_args!("warning: {error:#}"));
                Ok(outcome)
            }
            Err(training) => {
                note(format_args!("the training stopped because its preparation failed: {training:#}"));
                Err(error)
            }
        }
    }

    /// Waits for the thread and returns its result, once.
    fn join(&mut self) -> anyhow::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        match thread.join()? {
            Ok(()) => Ok(()),
            Err(error @ pipeline::Error::Stopped) => Err(error.into()),
            Err(error) => Err(anyhow::Error::from(error).context("the preparation failed")),
        }
    }
}

fn prepare(
    config: &PrepareConfig,
    in_order: bool,
    stop: &CancelToken,
    observer: &mut dyn Observer,
) -> pipeline::Result<PrepareSummary> {
    let options = PrepareOptions { in_order, ..PrepareOptions::default() };
    Preparation::plan(config)?.run_until(stop, options, &Clock::system(), observer)
}

/// Observer that prints the lines of a preparation and signals that the part list is written.
struct PrepareObserver {
    listed: Option<SyncSender<()>>,
    last_progress: Option<Instant>,
}

impl Observer for PrepareObserver {
    fn observe(&mut self, event: &Event) {
        match &event.what {
            EventKind::PrepareStart(_) => {
                // The channel has room for one message, and there is no other sender.
                let _ = self.listed.as_ref().map(|listed| listed.try_send(()));
            }
            EventKind::PrepareProgress(progress) => {
                let is_due = self.last_progress.is_none_or(|last_progress| last_progress.elapsed() >= PROGRESS_EVERY);
                if progress.bytes == progress.bytes_kept || !is_due {
                    return;
                }
                self.last_progress = Some(Instant::now());
            }
            _ => {}
        }
        if let Some(text) = telemetry::event_text::line(event) {
            note(text);
        }
    }
}

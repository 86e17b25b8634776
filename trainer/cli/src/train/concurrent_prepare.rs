//! `cloze train --prepare`: the preparation on its own thread.

use std::sync::mpsc::{Receiver, RecvError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use cloze::config::Parsed;
use cloze::config::corpora::NamedCorpus;
use cloze::plan::Halves;
use pipeline::prepare::{Preparation, PrepareConfig, PrepareOptions, PrepareSummary};
use runtime::{CancelSource, CancelToken, NamedThread, cancel_pair};
use telemetry::terminal::note;
use telemetry::{Clock, Event, EventKind, Observer};
use trainer::training::RunOutcome;

/// Between two lines about progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// A preparation under way in this process.
pub(super) struct ConcurrentPrepare {
    thread: Option<NamedThread<pipeline::Result<()>>>,
    /// Asks it to stop.
    stopper: CancelSource,
    /// Cancelled when the preparation fails. The source is held here too: dropping the last one cancels.
    _failure: CancelSource,
    failed: CancelToken,
    /// Hears that the part list is written, and the end.
    listed: Receiver<()>,
}

impl ConcurrentPrepare {
    /// Starts it. If the training runs at the same time, it uses its share of the cores.
    pub(super) fn start(parsed: Parsed, is_concurrent: bool) -> anyhow::Result<Self> {
        let workers = Halves::of(&parsed.config).prepare;
        let mut corpora = parsed.into_corpora(None)?;
        if is_concurrent {
            for corpus in &mut corpora {
                corpus.prepare.workers = Some(workers);
            }
        }
        let (stopper, stop) = cancel_pair();
        let (failure, failed) = cancel_pair();
        let (sender, listed) = sync_channel(1);
        let mut said = Said { listed: Some(sender), told: None };
        let fails = failure.clone();
        let thread = runtime::spawn("preparation", move || {
            let prepare = |corpus: NamedCorpus| prepare(&corpus.prepare, is_concurrent, &stop, &mut said).map(drop);
            let done = corpora.into_iter().try_for_each(prepare);
            if done.is_err() {
                fails.cancel();
            }
            done
        })?;
        Ok(Self { thread: Some(thread), stopper, _failure: failure, failed, listed })
    }

    /// Waits until its part list is written.
    pub(super) fn wait_for_list(&mut self) -> anyhow::Result<()> {
        match self.listed.recv() {
            Ok(()) => Ok(()),
            Err(RecvError) => self.join(),
        }
    }

    /// Waits until all is prepared.
    pub(super) fn wait_for_end(&mut self) -> anyhow::Result<()> {
        self.join()
    }

    /// Returns the error of a preparation that has failed; does not wait.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        if self.failed.is_cancelled() { self.join() } else { Ok(()) }
    }

    /// Closes when it has failed.
    pub(super) fn failed(&self) -> CancelToken {
        self.failed.clone()
    }

    /// Ends it, wherever it is.
    pub(super) fn leave(mut self) {
        self.stopper.cancel();
        // Whoever asked for the stop has the code; what it says is said.
        let _ = self.join();
    }

    /// Ends it with the training, which had that outcome. What ended it by itself is then what has to be mended first.
    pub(super) fn end(mut self, outcome: anyhow::Result<RunOutcome>) -> anyhow::Result<RunOutcome> {
        self.stopper.cancel();
        let Err(error) = self.join() else { return outcome };
        if matches!(error.downcast_ref(), Some(pipeline::Error::Stopped)) {
            note("the preparation was stopped with the training; `cloze prepare`, or the same command, continues it");
            return outcome;
        }
        match outcome {
            Ok(outcome) => {
                note(format_args!("warning: {error:#}"));
                Ok(outcome)
            }
            Err(training) => {
                note(format_args!("the training ended with its preparation: {training:#}"));
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

/// What people see of a preparation among the lines of a training, and the news that its list is written.
struct Said {
    listed: Option<SyncSender<()>>,
    told: Option<Instant>,
}

impl Observer for Said {
    fn observe(&mut self, event: &Event) {
        match &event.what {
            EventKind::PrepareStart(_) => {
                // Nobody else sends, and there is room for one.
                let _ = self.listed.as_ref().map(|listed| listed.try_send(()));
            }
            EventKind::PrepareProgress(now) => {
                let is_due = self.told.is_none_or(|told| told.elapsed() >= PROGRESS_EVERY);
                if now.bytes == now.bytes_kept || !is_due {
                    return;
                }
                self.told = Some(Instant::now());
            }
            _ => {}
        }
        if let Some(text) = telemetry::event_text::line(event) {
            note(text);
        }
    }
}

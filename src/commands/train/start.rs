//! From a command line to a plan, and to a preparation beside it: what is waited for before a run can be planned.

use std::time::Duration;

use pipeline::actor::Stop;
use pipeline::load::RowOrder;
use pipeline::prepare;
use store::{Sight, Store, Terms, Watch};

use super::beside::Beside;
use crate::cli::ConfigArgs;
use crate::config::Parsed;
use crate::control::Control;
use crate::plan::Plan;
use crate::terminal::note;

/// Pauses between two looks at a folder that is not far enough: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// A run that can start.
pub(super) struct Start {
    pub(super) plan: Plan,
    /// The preparation that goes on beside it.
    pub(super) beside: Option<Beside>,
}

/// Plans a run, and prepares its corpus if that is asked for: before it, or as far as it needs to begin where the run
/// reads as it is prepared. None if a signal came first.
pub(super) fn start(args: &ConfigArgs, prepare: bool, control: &Control) -> anyhow::Result<Option<Start>> {
    let stop = control.stop();
    if !prepare {
        let plan = Waiting::of(args, &stop).plan(None)?;
        return Ok(plan.map(|plan| Start { plan, beside: None }));
    }
    // What is wrong with the run is told before anything is prepared for it.
    Plan::before_its_data(args)?;
    let parsed = Parsed::read(&args.config, &args.set)?;
    let order = parsed.config.data.order;
    let mut beside = Beside::start(parsed, order == RowOrder::Streamed)?;
    match plan_beside(args, order, &mut beside, &stop) {
        Ok(Some(plan)) => {
            if let Some(segments) = plan.data().segments() {
                segments.fail_with(beside.failed());
            }
            Ok(Some(Start { plan, beside: Some(beside) }))
        }
        nothing => {
            beside.leave();
            if nothing.is_ok() {
                note("stopped before the first step; the same command continues");
            }
            nothing.map(|_| None)
        }
    }
}

/// The plan, once the preparation is so far. None if a stop came first.
fn plan_beside(args: &ConfigArgs, order: RowOrder, beside: &mut Beside, stop: &Stop) -> anyhow::Result<Option<Plan>> {
    let goes_on = match order {
        RowOrder::Shuffled => beside.wait_for_end(stop)?,
        RowOrder::Streamed => beside.wait_for_list(stop)?,
    };
    if goes_on { Waiting::of(args, stop).plan(Some(beside)) } else { Ok(None) }
}

/// Planning a run over a folder that may not be far enough yet.
struct Waiting<'a> {
    args: &'a ConfigArgs,
    stop: &'a Stop,
    pause: Duration,
    watch: Option<Watch>,
    is_told: bool,
}

impl<'a> Waiting<'a> {
    fn of(args: &'a ConfigArgs, stop: &'a Stop) -> Self {
        Self { args, stop, pause: PAUSES.0, watch: None, is_told: false }
    }

    /// The plan, once what it begins with is there. None if a stop came first.
    fn plan(mut self, mut beside: Option<&mut Beside>) -> anyhow::Result<Option<Plan>> {
        loop {
            let error = match Plan::of(self.args) {
                Err(error) if is_unfinished(&error) => error,
                planned => return planned.map(Some),
            };
            match &mut beside {
                Some(beside) => beside.check()?,
                None => self.refuse_deserted(error)?,
            }
            if self.stop.is_asked_within(self.pause) {
                return Ok(None);
            }
            self.pause = (2 * self.pause).min(PAUSES.1);
        }
    }

    /// Gives up where nobody fills the folder; says once who does.
    fn refuse_deserted(&mut self, error: anyhow::Error) -> anyhow::Result<()> {
        if self.watch.is_none() {
            let folder = Parsed::read(&self.args.config, &self.args.set)?.config.data.folder;
            self.watch = Some(Watch::of(&Store::existing(folder)?, prepare::LOCK, Terms::default()));
        }
        match self.watch.as_mut().map(Watch::look).transpose()? {
            Some(Sight::Deserted) => Err(error.context("nobody prepares the data of this run")),
            Some(Sight::Held(filler)) if !self.is_told => {
                self.is_told = true;
                note(format_args!("waiting for what the run begins with, which {filler} prepares: {error}"));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Whether data are not prepared as far as a run needs to begin.
fn is_unfinished(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(pipeline::Error::Unfinished { .. }))
}

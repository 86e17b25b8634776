//! Training that is measured: as it is configured, of which nothing is kept.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use cloze::cli::{ConfigArgs, ProfileArgs};
use cloze::commands::profile::shown::Profile;
use cloze::commands::profile::slow::Slow;
use cloze::commands::profile::traced::Recording;
use cloze::exit::Usage;
use cloze::plan::Plan;
use cloze::run::control::Control;
use cloze::run::data::Purpose;
use profiler::bottleneck::Binding;
use profiler::measure::{ENOUGH, MeasureWatch};
use profiler::statistics::mean_of;
use profiler::what_if::Proposal;
use schemas::ordinal::Step;
use store::{FaultConfig, Store};
use telemetry::{Clock, Event, Observer};
use trainer::device::step_timer::StepTimes;
use trainer::training::{Host, SingleProcess, Snapshot};
use trainer_plan::ForeignError;
use trainer_plan::checkpoint::State;
use trainer_plan::stop_request::StopRequest;

use super::micro_batch;
use crate::step_profile::{Running, Shape, profile};
use crate::train::data_without_records;

/// Steps that nobody measures: the first of a process make what the others find there.
const WARM_UP: u64 = 2;

/// Steps and seconds before which the time of a step is not known.
const STEPS_MIN: usize = 16;
const SECONDS_MIN: f64 = 5.0;

/// Trains by a plan, keeps nothing, and says where the time goes; with `--check` once more with what is proposed.
pub(super) fn checked(args: &ConfigArgs, options: &ProfileArgs, recording: &mut Recording) -> anyhow::Result<Profile> {
    let mut profile = measured(args, options)?;
    recording.end(&profile.measured, ("batch-reader", profile.reader));
    // Who waits for batches only waits longer when it is faster.
    if profile.binding == Some(Binding::Reader) {
        match micro_batch::proposal(args) {
            Ok(Some(proposal)) => propose(&mut profile, proposal),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "what larger micro-batches would bring could not be measured"),
        }
    }
    if options.check {
        profile.check(args, |changed| measured(changed, options))?;
    }
    Ok(profile)
}

/// Puts a proposal among the others, the most promising first. Why the model has none is said next to it.
fn propose(profile: &mut Profile, proposal: Proposal) {
    let mut all = match profile.what_if.take() {
        Some(Ok(proposals)) => proposals,
        Some(Err(why)) => {
            profile.evidence.push(why);
            Vec::new()
        }
        None => Vec::new(),
    };
    all.push(proposal);
    all.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    profile.what_if = Some(Ok(all));
}

/// Trains by a plan once.
pub(super) fn measured(args: &ConfigArgs, options: &ProfileArgs) -> anyhow::Result<Profile> {
    let slow = Slow::parse(options.slow.as_deref(), options.target)?;
    let plan = Plan::over(args, |folder: &Path| slow.find(folder), Purpose::Look)?;
    let control = Arc::new(Control::start()?);
    control.keep_nothing();
    let found = Arc::<Mutex<Option<(MeasureWatch, StepTimes)>>>::default();
    let mut host = Measuring {
        control: Arc::clone(&control),
        until: Until {
            seconds: options.seconds,
            steps: options.batches.map(|batches| batches.div_ceil(plan.train().micro_batches())),
        },
        running: None,
        is_over: false,
        found: Arc::clone(&found),
    };
    let mut data = data_without_records(&plan, &control, slow.workers, slow.contention);
    let training = plan.train().clone();
    let thread = runtime::spawn("trainer", move || {
        let store = Store::memory(FaultConfig::calm());
        let outcome =
            trainer::training::run(&training, Box::new(SingleProcess), &store, &Clock::system(), &mut data, &mut host);
        // A run that ends by itself ends what is measured.
        host.end();
        outcome
    })?;
    thread.join()??;
    let found = found.lock().unwrap_or_else(PoisonError::into_inner).take();
    match found {
        Some((watch, times)) => Ok(profile(Shape::of(&plan), &watch, times)),
        None => Err(Usage(format!(
            "the run has no more than {WARM_UP} steps: there is nothing to measure; `--set train.steps=100` has more"
        ))
        .into()),
    }
}

/// When it is enough.
struct Until {
    seconds: f64,
    steps: Option<u64>,
}

impl Until {
    fn is_reached(&self, running: &Running) -> bool {
        let (steps, seconds) = (running.steps(), running.seconds());
        let is_known = || {
            steps.len() >= STEPS_MIN
                && seconds >= SECONDS_MIN
                && mean_of(steps).is_some_and(|step| step.spread() < ENOUGH)
        };
        match self.steps {
            Some(wanted) => steps.len() as u64 >= wanted,
            None => seconds >= self.seconds || is_known(),
        }
    }
}

/// Hears a training and measures its steps.
struct Measuring {
    control: Arc<Control>,
    until: Until,
    running: Option<Running>,
    is_over: bool,
    found: Arc<Mutex<Option<(MeasureWatch, StepTimes)>>>,
}

impl Measuring {
    fn end(&mut self) {
        if let Some(running) = self.running.take() {
            *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(running.end());
        }
    }
}

impl Observer for Measuring {
    fn observe(&mut self, _event: &Event) {}
}

impl Host for Measuring {
    fn stop(&self) -> Option<StopRequest> {
        self.is_over.then_some(StopRequest::Interrupt)
    }

    fn begin(&mut self, _from: Option<&State>) -> Result<(), ForeignError> {
        Ok(())
    }

    fn save(&mut self, _snapshot: Snapshot) -> Result<(), ForeignError> {
        Ok(())
    }

    fn saved(&mut self) -> Result<Option<telemetry::training::CheckpointReport>, ForeignError> {
        Ok(None)
    }

    fn check(&mut self) -> Result<Option<telemetry::training::CheckpointReport>, ForeignError> {
        Ok(None)
    }

    fn next_step(&mut self, done: Step) {
        let Some(running) = &mut self.running else {
            if done.0 >= WARM_UP && !self.is_over {
                self.running = Running::begin(&self.control).ok();
            }
            return;
        };
        running.step();
        if self.until.is_reached(running) {
            self.end();
            self.is_over = true;
        }
    }
}

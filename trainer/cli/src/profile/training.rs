//! `cloze profile train`: a training as configured, which saves nothing.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use cloze::cli::{ConfigArgs, ProfileArgs};
use cloze::commands::profile::shown::Profile;
use cloze::commands::profile::slow::InjectedDelays;
use cloze::commands::profile::traces::Recording;
use cloze::exit::Usage;
use cloze::plan::Plan;
use cloze::run::control::Control;
use cloze::run::data::Purpose;
use profiler::bottleneck::Bottleneck;
use profiler::measure::{ENOUGH, MeasureWatch};
use profiler::statistics::mean_of;
use profiler::what_if::WhatIfChange;
use schemas::ordinal::Step;
use store::{FaultConfig, Store};
use telemetry::{Clock, Event, Observer};
use trainer::device::step_timer::StepTimes;
use trainer::training::{Host, Snapshot};
use trainer_plan::ForeignError;
use trainer_plan::checkpoint::State;
use trainer_plan::stop_request::StopRequest;

use super::micro_batch;
use crate::step_profile::{Running, Shape, profile};
use crate::train::{connect_launched, data_without_records, launched};

/// Warm-up steps, which are not measured. The first steps of a process create caches and state.
const WARM_UP: u64 = 2;

/// Minimum number of steps and of seconds for an estimate of the step time.
const STEPS_MIN: usize = 16;
const SECONDS_MIN: f64 = 5.0;

/// Trains without saving and profiles the steps. With `--check` it trains again with the proposal.
pub(super) fn checked(args: &ConfigArgs, options: &ProfileArgs, recording: &mut Recording) -> anyhow::Result<Profile> {
    let mut profile = measured(args, options)?;
    recording.end(&profile.measured, ("batch-reader", profile.reader));
    // A trainer that waits for batches gains nothing from faster steps. Steps of several ranks are not tried.
    if profile.bottleneck == Some(Bottleneck::Reader) && launched()?.is_none() {
        match micro_batch::proposal(args) {
            Ok(Some(proposal)) => propose(&mut profile, proposal),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "profiler: cannot measure larger micro-batches"),
        }
    }
    if options.check {
        profile.check(args, |changed| measured(changed, options))?;
    }
    Ok(profile)
}

/// Adds a proposal to the others, the largest gain first. The reason for having no others becomes evidence.
fn propose(profile: &mut Profile, proposal: WhatIfChange) {
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

/// Trains once and returns the profile.
pub(super) fn measured(args: &ConfigArgs, options: &ProfileArgs) -> anyhow::Result<Profile> {
    let measured = train(args, options)?;
    measured.ok_or_else(|| {
        let message = format!(
            "the run has only {WARM_UP} steps or fewer, which are warm-up: there is nothing to measure; give more, for example \
             `--set train.steps=100`"
        );
        Usage(message).into()
    })
}

/// Trains once. `None` if no steps were measured: the run is too short, or this is not rank 0, which measures.
pub(super) fn train(args: &ConfigArgs, options: &ProfileArgs) -> anyhow::Result<Option<Profile>> {
    let slow = InjectedDelays::parse(options.slow.as_deref(), options.target)?;
    let plan = Plan::new(args, |folder: &Path| slow.find(folder), Purpose::ReadOnly)?;
    let control = Arc::new(Control::start()?);
    control.keep_nothing();
    let ranks = connect_launched(&plan)?;
    let share = ranks.share();
    let found = Arc::<Mutex<Option<(MeasureWatch, StepTimes)>>>::default();
    let mut host = MeasuringHost {
        control: Arc::clone(&control),
        until: share.is_first().then(|| Limit {
            seconds: options.max_seconds(),
            steps: options.batches.map(|batches| batches.div_ceil(share.of(plan.train().micro_batches()))),
        }),
        running: None,
        is_done: false,
        found: Arc::clone(&found),
    };
    let mut data = data_without_records(&plan, &control, slow.workers, slow.contention, share);
    let training = plan.train().clone();
    let thread = runtime::spawn("trainer", move || {
        let store = Store::in_memory(FaultConfig::none());
        let outcome = trainer::training::run(&training, ranks, &store, &Clock::system(), &mut data, &mut host);
        // A run that ends without a stop ends the measurement.
        host.end();
        outcome
    })?;
    thread.join()??;
    let found = found.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(found.map(|(watch, times)| profile(Shape::new(&plan, share), &watch, times)))
}

/// Condition for the end of the measurement.
struct Limit {
    seconds: f64,
    steps: Option<u64>,
}

impl Limit {
    fn is_reached(&self, running: &Running) -> bool {
        let steps = running.steps();
        let seconds = running.seconds();
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

/// Host of a training that measures its steps and saves nothing.
struct MeasuringHost {
    control: Arc<Control>,
    /// End of the measurement. `None` on ranks other than 0, which do not measure.
    until: Option<Limit>,
    running: Option<Running>,
    is_done: bool,
    found: Arc<Mutex<Option<(MeasureWatch, StepTimes)>>>,
}

impl MeasuringHost {
    fn end(&mut self) {
        if let Some(running) = self.running.take() {
            *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(running.end());
        }
    }
}

impl Observer for MeasuringHost {
    fn observe(&mut self, _event: &Event) {}
}

impl Host for MeasuringHost {
    fn stop(&self) -> Option<StopRequest> {
        self.is_done.then_some(StopRequest::Interrupt)
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
        let Some(until) = &self.until else { return };
        let Some(running) = &mut self.running else {
            if done.0 >= WARM_UP && !self.is_done {
                self.running = Running::begin(&self.control).ok();
            }
            return;
        };
        running.step();
        if until.is_reached(running) {
            self.end();
            self.is_done = true;
        }
    }
}

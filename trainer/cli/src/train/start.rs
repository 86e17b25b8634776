//! Planning of a run that waits for its first data, with an optional concurrent preparation.

use std::io::ErrorKind;
use std::path::Path;
use std::thread::sleep;
use std::time::Instant;

use cloze::cli::ConfigArgs;
use cloze::config::Parsed;
use cloze::plan::Plan;
use cloze::run::dataset_versions::pauses::PollInterval;
use pipeline::load::{self, DataConfig, RowOrder};
use pipeline::prepare;
use store::{LeaseConfig, LeaseStatus, LeaseWatch, Store};
use telemetry::terminal::note;

use super::concurrent_prepare::ConcurrentPrepare;

/// Function that plans with the data that is prepared so far.
type MakePlan<'a> = &'a dyn Fn() -> anyhow::Result<Plan>;

/// Run that can start.
pub(super) struct ReadyRun {
    pub(super) plan: Plan,
    /// Concurrent preparation.
    pub(super) preparation: Option<ConcurrentPrepare>,
}

/// Plans a run, and prepares its corpus if `prepare` is set.
///
/// The function waits for the whole preparation, or only for the part list if the run streams its data. A signal during
/// the wait ends the process, because neither half has anything to save. `on_wait` is called before each wait.
pub(super) fn plan_when_ready(
    args: &ConfigArgs,
    data: &DataConfig,
    make_plan: MakePlan<'_>,
    prepare: bool,
    on_wait: &dyn Fn() -> anyhow::Result<()>,
) -> anyhow::Result<ReadyRun> {
    let wait = Waiting {
        data,
        make_plan,
        on_wait,
        pauses: PollInterval::begin(),
        since: Instant::now(),
        watch: None,
        last_logged: None,
    };
    if !prepare {
        return Ok(ReadyRun { plan: wait.plan(None)?, preparation: None });
    }
    // Report errors of the run before the preparation starts.
    Plan::check_without_data(args)?;
    on_wait()?;
    let mut preparation =
        ConcurrentPrepare::start(Parsed::read(&args.config, &args.set)?, data.order == RowOrder::Streamed)?;
    match plan_after(wait, &mut preparation) {
        Ok(plan) => {
            fail_with_preparation(&plan, Some(&preparation));
            Ok(ReadyRun { plan, preparation: Some(preparation) })
        }
        Err(error) => {
            preparation.leave();
            Err(error)
        }
    }
}

/// Returns the plan as soon as the preparation has made the first data of the run.
fn plan_after(wait: Waiting<'_>, preparation: &mut ConcurrentPrepare) -> anyhow::Result<Plan> {
    match wait.data.order {
        RowOrder::Shuffled => preparation.wait_for_end()?,
        RowOrder::Streamed => preparation.wait_for_list()?,
    }
    wait.plan(Some(preparation))
}

/// Makes a run that streams its data fail if the preparation fails.
pub(super) fn fail_with_preparation(plan: &Plan, preparation: Option<&ConcurrentPrepare>) {
    if let Some((segments, preparation)) = plan.data().segments().zip(preparation) {
        segments.fail_with(preparation.failed());
    }
}

/// Planner of a run whose folder may not have enough data yet.
struct Waiting<'a> {
    data: &'a DataConfig,
    make_plan: MakePlan<'a>,
    on_wait: &'a dyn Fn() -> anyhow::Result<()>,
    pauses: PollInterval,
    since: Instant,
    /// `None` while the folder is missing.
    watch: Option<LeaseWatch>,
    /// Status that was logged last.
    last_logged: Option<LeaseStatus>,
}

impl Waiting<'_> {
    /// Returns the plan as soon as the first data is prepared.
    fn plan(mut self, mut preparation: Option<&mut ConcurrentPrepare>) -> anyhow::Result<Plan> {
        loop {
            let error = match (self.make_plan)() {
                Err(error) if is_unfinished(&error) => error,
                planned => return planned,
            };
            (self.on_wait)()?;
            match &mut preparation {
                Some(preparation) => preparation.check()?,
                None => self.refuse_abandoned(error)?,
            }
            sleep(self.pauses.next_pause());
        }
    }

    /// Returns the error if no process prepares the folder. Otherwise logs each change of the status.
    fn refuse_abandoned(&mut self, error: anyhow::Error) -> anyhow::Result<()> {
        let status = self.observe()?;
        let preparer = match &status {
            LeaseStatus::Abandoned => return Err(error.context("no process prepares the data of this run")),
            LeaseStatus::Held(filler) => format!("{filler} prepares it"),
            LeaseStatus::Idle => "no process prepares it yet".to_owned(),
        };
        if self.last_logged.as_ref() != Some(&status) {
            note(format_args!("waiting for the first data of the run ({preparer}): {error}"));
            self.last_logged = Some(status);
        }
        Ok(())
    }

    /// Returns the lease status of the folder. A missing folder is idle, then deserted after the same timeout.
    fn observe(&mut self) -> anyhow::Result<LeaseStatus> {
        if self.watch.is_none() {
            match remote_store::existing_path(&self.data.folder) {
                Ok(store) => self.watch = Some(LeaseWatch::new(&store, prepare::LOCK, LeaseConfig::default())),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        match &mut self.watch {
            Some(watch) => Ok(watch.observe()?),
            None if self.since.elapsed() < LeaseConfig::default().takeover_delay => Ok(LeaseStatus::Idle),
            None => Ok(LeaseStatus::Abandoned),
        }
    }
}

/// Opens the store of prepared data. The folder of a streamed run may be missing, because a preparation will create it.
pub(super) fn find_data(folder: &Path, order: RowOrder) -> pipeline::Result<Store> {
    load::find(folder).map_err(|error| match error {
        pipeline::Error::Config(_)
            if order == RowOrder::Streamed && !folder.exists() && !remote_store::is_url_path(folder) =>
        {
            pipeline::Error::Unfinished {
                place: folder.display().to_string(),
                message: "there is no such folder yet; run `cloze prepare`, or change `data.folder`".to_owned(),
            }
        }
        error => error,
    })
}

/// Whether the error means that the first data of the run is not prepared yet.
fn is_unfinished(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(pipeline::Error::Unfinished { .. }))
}

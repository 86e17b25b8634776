//! From a command line to a plan, with a preparation at the same time: waits for the data that a run begins with.

use std::io::ErrorKind;
use std::path::Path;
use std::thread::sleep;
use std::time::Instant;

use cloze::cli::ConfigArgs;
use cloze::config::Parsed;
use cloze::plan::Plan;
use cloze::run::dataset_versions::pauses::Pauses;
use pipeline::load::{self, DataConfig, RowOrder};
use pipeline::prepare;
use store::{LeaseConfig, LeaseStatus, LeaseWatch, Store};
use telemetry::terminal::note;

use super::concurrent_prepare::ConcurrentPrepare;

/// Plans over the data that is there by now.
type MakePlan<'a> = &'a dyn Fn() -> anyhow::Result<Plan>;

/// A run that can start.
pub(super) struct ReadyRun {
    pub(super) plan: Plan,
    /// The preparation that runs at the same time.
    pub(super) preparation: Option<ConcurrentPrepare>,
}

/// Plans a run, and prepares its corpus if that is asked for: before it, or as far as it needs to begin where the run
/// reads as it is prepared. A signal meanwhile ends the process, since neither half has anything to save.
///
/// `on_wait` is called before each wait.
pub(super) fn plan_when_ready(
    args: &ConfigArgs,
    data: &DataConfig,
    make_plan: MakePlan<'_>,
    prepare: bool,
    on_wait: &dyn Fn() -> anyhow::Result<()>,
) -> anyhow::Result<ReadyRun> {
    let wait =
        Waiting { data, make_plan, on_wait, pauses: Pauses::begin(), since: Instant::now(), watch: None, told: None };
    if !prepare {
        return Ok(ReadyRun { plan: wait.plan(None)?, preparation: None });
    }
    // What is wrong with the run is told before anything is prepared for it.
    Plan::before_its_data(args)?;
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

/// The plan, once the preparation has made what the run begins with.
fn plan_after(wait: Waiting<'_>, preparation: &mut ConcurrentPrepare) -> anyhow::Result<Plan> {
    match wait.data.order {
        RowOrder::Shuffled => preparation.wait_for_end()?,
        RowOrder::Streamed => preparation.wait_for_list()?,
    }
    wait.plan(Some(preparation))
}

/// Makes a run that reads data while it is prepared fail if the preparation fails.
pub(super) fn fail_with_preparation(plan: &Plan, preparation: Option<&ConcurrentPrepare>) {
    if let Some((segments, preparation)) = plan.data().segments().zip(preparation) {
        segments.fail_with(preparation.failed());
    }
}

/// Planning a run over a folder that may not be far enough yet.
struct Waiting<'a> {
    data: &'a DataConfig,
    make_plan: MakePlan<'a>,
    on_wait: &'a dyn Fn() -> anyhow::Result<()>,
    pauses: Pauses,
    since: Instant,
    /// None before the folder is there.
    watch: Option<LeaseWatch>,
    /// Who was said to fill it.
    told: Option<LeaseStatus>,
}

impl Waiting<'_> {
    /// The plan, once what it begins with is there.
    fn plan(mut self, mut preparation: Option<&mut ConcurrentPrepare>) -> anyhow::Result<Plan> {
        loop {
            let error = match (self.make_plan)() {
                Err(error) if is_unfinished(&error) => error,
                planned => return planned,
            };
            (self.on_wait)()?;
            match &mut preparation {
                Some(preparation) => preparation.check()?,
                None => self.refuse_deserted(error)?,
            }
            sleep(self.pauses.next_pause());
        }
    }

    /// Gives up where nobody fills the folder; says once who does.
    fn refuse_deserted(&mut self, error: anyhow::Error) -> anyhow::Result<()> {
        let sight = self.look()?;
        let who = match &sight {
            LeaseStatus::Deserted => return Err(error.context("nobody prepares the data of this run")),
            LeaseStatus::Held(filler) => format!("{filler} prepares"),
            LeaseStatus::Idle => "nobody prepares yet".to_owned(),
        };
        if self.told.as_ref() != Some(&sight) {
            note(format_args!("waiting for what the run begins with, which {who}: {error}"));
            self.told = Some(sight);
        }
        Ok(())
    }

    /// Who fills the folder. One that is not there is filled by nobody, and waited for as long.
    fn look(&mut self) -> anyhow::Result<LeaseStatus> {
        if self.watch.is_none() {
            match Store::existing(&self.data.folder) {
                Ok(store) => self.watch = Some(LeaseWatch::of(&store, prepare::LOCK, LeaseConfig::default())),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        match &mut self.watch {
            Some(watch) => Ok(watch.look()?),
            None if self.since.elapsed() < LeaseConfig::default().patience => Ok(LeaseStatus::Idle),
            None => Ok(LeaseStatus::Deserted),
        }
    }
}

/// The store of prepared data. A folder that a streamed run is to read need not be there yet: somebody will make it.
pub(super) fn find_data(folder: &Path, order: RowOrder) -> pipeline::Result<Store> {
    load::find(folder).map_err(|error| match error {
        pipeline::Error::Config(_) if order == RowOrder::Streamed && !folder.exists() => pipeline::Error::Unfinished {
            place: folder.display().to_string(),
            message: "there is no such folder yet; run `cloze prepare`, or change `data.folder`".to_owned(),
        },
        error => error,
    })
}

/// Whether data are not prepared as far as a run needs to begin.
fn is_unfinished(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(pipeline::Error::Unfinished { .. }))
}

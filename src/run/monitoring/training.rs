//! Server backend of a training run.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pipeline::load::{LoadPlan, RowPolicy};
use schemas::BatchIndex;
use serde_json::{Value, json};
use server::{
    Action, ApiError, Backend, CheckpointStatus, Health, Kind, ListenAddress, MemoryStatus, RunState, ServeConfig,
    Server, Status,
};
use store::Store;
use telemetry::host::resident_bytes;
use telemetry::log;
use telemetry::terminal::note;
use telemetry::{EventKind, Observer};

use super::{ADDRESS, about, sibling_runs, this_host};
use crate::config::Config;
use crate::exit::Usage;
use crate::plan::Plan;
use crate::report::row_view;
use crate::run::control::{Control, Phase, Signal};
use crate::run::data::PreparedData;

/// Server of a training run. It stops on drop.
pub struct TrainingBackend {
    state: Arc<RunState>,
    training: Arc<Training>,
    _server: Server,
}

impl Drop for TrainingBackend {
    fn drop(&mut self) {
        self.training.clear_address();
    }
}

impl TrainingBackend {
    /// Starts the server of `[serve]`, before the plan is known. Returns `None` if it has no address.
    pub fn open(serve: &ServeConfig, folder: &Path, control: &Arc<Control>) -> anyhow::Result<Option<Self>> {
        let state = RunState::new(about(Kind::Train, folder));
        let board = Arc::clone(control);
        state.with_extra_figures(move || {
            board.board().queue_fill().map(|fill| ("queue/fill", fill)).into_iter().collect()
        });
        let training = Training::new(Arc::clone(control), Arc::clone(&state), folder.to_owned());
        let heard = Arc::clone(&training);
        let bound = move |address: &ListenAddress| heard.bound(address);
        let server = Server::start(serve, &state, Arc::clone(&training) as _, bound).map_err(Usage)?;
        Ok(server.map(|server| Self { state, training, _server: server }))
    }

    /// Returns the observer for events of the training.
    pub fn reader(&self) -> Box<dyn Observer> {
        self.state.observer()
    }

    /// Sets the plan and the run folder.
    pub fn planned(&self, plan: &Plan, run: &Store) {
        self.training.planned(Planned::new(plan), run);
    }
}

/// State of a training run, from the start of its process on.
struct Training {
    control: Arc<Control>,
    state: Arc<RunState>,
    folder: PathBuf,
    planned: OnceLock<Planned>,
    /// Address of the server, and the store to which it is written. Both are unknown at the start.
    found: Mutex<(Option<String>, Option<Store>)>,
}

/// Properties of a training run that are known from its plan.
struct Planned {
    settings: Value,
    steps: Option<u64>,
    load: Arc<LoadPlan>,
    data: Arc<PreparedData>,
}

impl Planned {
    /// Extracts the properties from a plan.
    fn new(plan: &Plan) -> Self {
        let default = Config::unwritten().resolved();
        let steps = plan.train().train.ends_by_steps().then_some(plan.train().train.steps);
        Self {
            settings: super::settings(&plan.resolved_toml(), &default, steps),
            steps,
            load: plan.everything(),
            data: Arc::clone(plan.data()),
        }
    }
}

impl Training {
    /// Creates the state before the plan is known.
    fn new(control: Arc<Control>, state: Arc<RunState>, folder: PathBuf) -> Arc<Self> {
        Arc::new(Self { control, state, folder, planned: OnceLock::new(), found: Mutex::default() })
    }

    /// Sets the properties of the plan, and the run folder.
    fn planned(&self, planned: Planned, run: &Store) {
        // A rebuilt plan differs only in the number of steps.
        let _ = self.planned.set(planned);
        self.state.goes_on_in(run);
        self.find(|found| found.1 = Some(run.clone()));
    }

    /// Records the address of the server.
    fn bound(&self, address: &ListenAddress) {
        note(format_args!("serving status at {address}"));
        let address = match address {
            // Absolute, because clients run in other working directories.
            ListenAddress::Socket(path) => {
                std::path::absolute(path).unwrap_or_else(|_| path.clone()).display().to_string()
            }
            ListenAddress::Tcp(_) => address.to_string(),
        };
        self.find(|found| found.0 = Some(address));
    }

    fn find(&self, what: impl FnOnce(&mut (Option<String>, Option<Store>))) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        what(&mut found);
        let (Some(address), Some(run)) = &*found else { return };
        let text = json!({
            "address": address,
            "host": this_host(),
            "pid": std::process::id(),
            "instance": self.state.instance(),
        });
        let text = text.to_string();
        if let Err(error) = run.put(ADDRESS, text.as_bytes()) {
            tracing::warn!(%error, "cannot write the address of the status server");
        }
    }

    /// Removes the address from the run folder.
    fn clear_address(&self) {
        // Opens the folder directly, because the lock may be released already.
        let Ok(run) = remote_store::existing_path(&self.folder) else { return };
        let is_own = |bytes: &[u8]| {
            serde_json::from_slice::<Value>(bytes).is_ok_and(|value| value["instance"] == self.state.instance())
        };
        // If another process has resumed the run, the file holds the address of that process.
        if run.get_with_stat(ADDRESS).ok().flatten().is_some_and(|(bytes, _)| is_own(&bytes)) {
            let _ = run.delete(ADDRESS);
        }
    }

    fn made(&self) -> Result<&Planned, ApiError> {
        self.planned.get().ok_or_else(|| ApiError::Unable("the run is not planned yet; try again later".to_owned()))
    }

    /// Returns rows of the batch at the position of the newest report.
    fn shown(&self, planned: &Planned, count: usize) -> anyhow::Result<Value> {
        let at = self.state.at();
        let load = &planned.load;
        let index = BatchIndex(at.rows_seen.unwrap_or(0) / load.rows_per_batch());
        let groups = load.groups();
        let batch = load.batch_with(&groups, index, &RowPolicy::default())?;
        let facts = load.explain(&groups, index)?;
        let views = row_view::views_of(&batch);
        let mut rows = Vec::new();
        for (row, facts) in facts.iter().enumerate().take(count.min(batch.rows())) {
            let origins = planned.data.origins(facts)?;
            let documents = facts.documents.iter().map(|name| row_view::document(*name, origins.get(name)));
            let rendered = views.iter().map(|(view, columns)| {
                let view_row = row_view::row(&batch, (view, columns), row, load.vocab())?;
                Ok(json!({ "name": view, "note": view_row.note, "tokens": view_row.tokens, "offsets": view_row.offsets }))
            });
            rows.push(json!({
                "row": facts.row,
                "source": facts.of,
                "place": row_view::place(facts),
                "documents": documents.collect::<Vec<_>>(),
                "views": rendered.collect::<anyhow::Result<Vec<_>>>()?,
            }));
        }
        Ok(json!({ "step": at.step, "first_row": load.rows_of(index).start, "rows": rows }))
    }
}

impl Backend for Training {
    fn status(&self) -> Status {
        let board = self.control.board().look();
        let newest = self.state.newest();
        let at = self.state.at();
        let silence_s = self.state.silence().as_secs_f64();
        let report = newest.as_ref().and_then(|event| match &event.what {
            EventKind::Report(report) => Some(report),
            _ => None,
        });
        let steps = self.planned.get().and_then(|planned| planned.steps);
        let step = at.step.map(|step| step.0);
        let share = step.zip(steps).map(|(step, steps)| step as f64 / steps.max(1) as f64);
        Status {
            kind: "train",
            phase: board.phase.name().to_owned(),
            since_s: board.since.as_secs_f64(),
            step,
            steps,
            progress: report.and_then(|report| report.progress).or(share),
            eta_s: report.and_then(|report| report.speed.eta_s).map(|left| (left - silence_s).max(0.0)),
            epoch: at.epoch,
            tokens_per_s: report.map(|report| report.speed.tokens_per_s),
            actors: board.actors,
            validation: board.validation,
            checkpoint: CheckpointStatus {
                writing_s: board.writing.map(|since| since.as_secs_f64()),
                kept: board.kept,
            },
            memory: MemoryStatus {
                host_bytes: resident_bytes(),
                device_bytes: report.and_then(|report| report.memory).map(|memory| memory.allocated_peak_bytes),
            },
            uptime_s: board.uptime.as_secs_f64(),
            actions: self.actions(),
        }
    }

    fn health(&self) -> Health {
        let board = self.control.board();
        let phase = board.phase();
        let batches = board.batches();
        let has_begun = phase != Phase::Start;
        let waits = || Err(format!("the run is in phase `{}`", phase.name()));
        let ready = if batches > 0 { Ok(()) } else { waits() };
        Health { live: self.control.check_progress(), ready, started: if has_begun { Ok(()) } else { waits() } }
    }

    fn config(&self) -> Result<Value, ApiError> {
        self.made().map(|planned| planned.settings.clone())
    }

    fn rows(&self, count: usize) -> Result<Value, ApiError> {
        let planned = self.made()?;
        self.shown(planned, count).map_err(|error| ApiError::Unable(format!("{error:#}")))
    }

    fn runs(&self) -> Value {
        sibling_runs::siblings(&self.folder)
    }

    fn history_of(&self, run: &str) -> Result<String, ApiError> {
        sibling_runs::history(&self.folder, run)
    }

    fn actions(&self) -> &'static [&'static str] {
        Action::NAMES
    }

    fn execute(&self, action: Action) -> Result<String, ApiError> {
        let requests = self.control.requests();
        Ok(match action {
            Action::Checkpoint => {
                requests.save();
                "the run saves a checkpoint after the current step, or at once if it waits for data".to_owned()
            }
            Action::Stop => {
                self.control.ask_to_stop(Signal::Terminate);
                "the run finishes its step, saves a checkpoint and exits with code 143".to_owned()
            }
            Action::LogLevel(level) => {
                let now = log::reload(Some(&level)).map_err(ApiError::Wrong)?;
                format!("log level set to {now}")
            }
            Action::Note(text) => {
                requests.note(text).map_err(ApiError::Unable)?;
                "the note is logged with the next step, or at once if the run waits for data".to_owned()
            }
        })
    }
}

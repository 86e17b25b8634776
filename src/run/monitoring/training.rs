//! A training, as those who look at it ask it.

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
use telemetry::host_memory::resident_bytes;
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

/// Where a training is seen, until this is dropped.
pub struct TrainingBackend {
    seen: Arc<RunState>,
    training: Arc<Training>,
    _server: Server,
}

impl Drop for TrainingBackend {
    fn drop(&mut self) {
        self.training.unfound();
    }
}

impl TrainingBackend {
    /// Serves as `[serve]` says, from before anybody knows the plan; nothing where it says nothing.
    pub fn open(serve: &ServeConfig, folder: &Path, control: &Arc<Control>) -> anyhow::Result<Option<Self>> {
        let seen = RunState::new(about(Kind::Train, folder));
        let board = Arc::clone(control);
        seen.beside(move || board.board().queue_fill().map(|fill| ("queue/fill", fill)).into_iter().collect());
        let training = Training::new(Arc::clone(control), Arc::clone(&seen), folder.to_owned());
        let heard = Arc::clone(&training);
        let bound = move |address: &ListenAddress| heard.bound(address);
        let server = Server::start(serve, &seen, Arc::clone(&training) as _, bound).map_err(Usage)?;
        Ok(server.map(|server| Self { seen, training, _server: server }))
    }

    /// Who hears what the training says.
    pub fn reader(&self) -> Box<dyn Observer> {
        self.seen.observer()
    }

    /// The training is planned, and keeps what it makes there.
    pub fn planned(&self, plan: &Plan, run: &Store) {
        self.training.planned(Planned::of(plan), run);
    }
}

/// A training that is looked at: from the start of its process on, before anybody knows its plan.
struct Training {
    control: Arc<Control>,
    seen: Arc<RunState>,
    folder: PathBuf,
    planned: OnceLock<Planned>,
    /// Where it listens, and where that is written down: neither is known at the start.
    found: Mutex<(Option<String>, Option<Store>)>,
}

/// What is known of a training once it is planned.
struct Planned {
    settings: Value,
    steps: Option<u64>,
    load: Arc<LoadPlan>,
    data: Arc<PreparedData>,
}

impl Planned {
    /// Of that plan.
    fn of(plan: &Plan) -> Self {
        let default = Config::unwritten().resolved();
        Self {
            settings: super::settings(&plan.resolved_toml(), &default),
            steps: plan.train().train.ends_by_steps().then_some(plan.train().train.steps),
            load: plan.everything(),
            data: Arc::clone(plan.data()),
        }
    }
}

impl Training {
    /// Nothing is known yet but where it will live.
    fn new(control: Arc<Control>, seen: Arc<RunState>, folder: PathBuf) -> Arc<Self> {
        Arc::new(Self { control, seen, folder, planned: OnceLock::new(), found: Mutex::default() })
    }

    /// It is planned, and keeps what it makes there.
    fn planned(&self, planned: Planned, run: &Store) {
        // A plan that was rebuilt is of the same data and keys, but for the steps.
        let _ = self.planned.set(planned);
        self.seen.goes_on_in(run);
        self.find(|found| found.1 = Some(run.clone()));
    }

    /// It listens there.
    fn bound(&self, address: &ListenAddress) {
        note(format_args!("seen at {address}"));
        let address = match address {
            // Whoever looks for it works elsewhere.
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
            "instance": self.seen.instance(),
        });
        let text = text.to_string();
        if let Err(error) = run.put(ADDRESS, text.as_bytes()) {
            tracing::warn!(%error, "where it is seen is not written down");
        }
    }

    /// It listens no more.
    fn unfound(&self) {
        // By the folder itself: who held it may have let go of it.
        let Ok(run) = Store::existing(&self.folder) else { return };
        let is_own = |bytes: &[u8]| {
            serde_json::from_slice::<Value>(bytes).is_ok_and(|value| value["instance"] == self.seen.instance())
        };
        // Of a run that another process continues with, it says where that listens.
        if run.read_with_stat(ADDRESS).ok().flatten().is_some_and(|(bytes, _)| is_own(&bytes)) {
            let _ = run.remove(ADDRESS);
        }
    }

    fn made(&self) -> Result<&Planned, ApiError> {
        self.planned.get().ok_or_else(|| ApiError::Unable("it is not planned yet; ask again".to_owned()))
    }

    /// Rows of the batch that the newest report came to.
    fn shown(&self, planned: &Planned, count: usize) -> anyhow::Result<Value> {
        let (at, load) = (self.seen.at(), &planned.load);
        let index = BatchIndex(at.rows_seen.unwrap_or(0) / load.rows_per_batch());
        let groups = load.groups();
        let batch = load.batch_with(&groups, index, &RowPolicy::default())?;
        let facts = load.explain(&groups, index)?;
        let views = row_view::views_of(&batch);
        let mut rows = Vec::new();
        for (row, facts) in facts.iter().enumerate().take(count.min(batch.rows())) {
            let origins = planned.data.origins(facts)?;
            let documents = facts.documents.iter().map(|name| row_view::document(*name, origins.get(name)));
            let seen = views.iter().map(|(view, columns)| {
                let looked = row_view::row(&batch, (view, columns), row, load.vocab())?;
                Ok(json!({ "name": view, "note": looked.note, "tokens": looked.tokens, "offsets": looked.offsets }))
            });
            rows.push(json!({
                "row": facts.row,
                "source": facts.of,
                "place": row_view::place(facts),
                "documents": documents.collect::<Vec<_>>(),
                "views": seen.collect::<anyhow::Result<Vec<_>>>()?,
            }));
        }
        Ok(json!({ "step": at.step, "first_row": load.rows_of(index).start, "rows": rows }))
    }
}

impl Backend for Training {
    fn status(&self) -> Status {
        let board = self.control.board().look();
        let (newest, at) = (self.seen.newest(), self.seen.at());
        let silence_s = self.seen.silence().as_secs_f64();
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
        let (phase, batches) = (board.phase(), board.batches());
        let has_begun = phase != Phase::Start;
        let waits = || Err(format!("it is in phase `{}`", phase.name()));
        let ready = if batches > 0 { Ok(()) } else { waits() };
        Health { live: self.control.goes_on(), ready, started: if has_begun { Ok(()) } else { waits() } }
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

    fn act(&self, action: Action) -> Result<String, ApiError> {
        let wishes = self.control.wishes();
        Ok(match action {
            Action::Checkpoint => {
                wishes.save();
                "it is saved after the step under way".to_owned()
            }
            Action::Stop => {
                self.control.ask_to_stop(Signal::Terminate);
                "it finishes its step, saves, and leaves with code 143".to_owned()
            }
            Action::LogLevel(level) => {
                let now = log::reload(Some(&level)).map_err(ApiError::Wrong)?;
                format!("logged from now on: {now}")
            }
            Action::Note(text) => {
                wishes.note(text).map_err(ApiError::Unable)?;
                "it is noted with the next step".to_owned()
            }
        })
    }
}

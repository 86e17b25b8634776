//! Server backend of a preparation.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use pipeline::prepare::PoolStatsCallback;
use runtime::PoolStats;
use serde_json::{Value, json};
use server::{
    Action, ActorStatus, ApiError, Backend, Health, Kind, ListenAddress, MemoryStatus, RunState, Server, Status,
};
use telemetry::host::resident_bytes;
use telemetry::terminal::note;
use telemetry::{EventKind, Observer};

use super::{about, settings};
use crate::config::Config;
use crate::exit::Usage;
use crate::run::worker_status;

/// Server of a preparation. It stops on drop.
pub(crate) struct PrepareBackend {
    state: Arc<RunState>,
    preparing: Arc<Preparing>,
    _server: Server,
}

impl PrepareBackend {
    /// Starts the server of `[serve]`. Returns `None` if it has no address.
    pub(crate) fn open(config: &Config) -> anyhow::Result<Option<Self>> {
        let state = RunState::new(about(Kind::Prepare, &config.prepare.folder));
        let preparing = Preparing::new(Arc::clone(&state), config.clone());
        let bound = |address: &ListenAddress| note(format_args!("serving status at {address}"));
        let server = Server::start(&config.serve, &state, Arc::clone(&preparing) as _, bound).map_err(Usage)?;
        Ok(server.map(|server| Self { state, preparing, _server: server }))
    }

    /// Returns the observer for events of the preparation.
    pub(crate) fn reader(&self) -> Box<dyn Observer> {
        self.state.observer()
    }

    /// Sets the check for progress.
    pub(crate) fn watched(&self, goes_on: ProgressCheck) {
        let _ = self.preparing.goes_on.set(goes_on);
    }

    /// Returns a callback for the statistics of the workers.
    pub(crate) fn stats_callback(&self) -> PoolStatsCallback {
        let preparing = Arc::clone(&self.preparing);
        Box::new(move |worker_stats| preparing.workers(worker_stats))
    }
}

/// State of a preparation. It supports no actions: a signal stops a preparation, and there is nothing to save.
struct Preparing {
    state: Arc<RunState>,
    config: Config,
    started: Instant,
    workers: Mutex<Option<PoolStats>>,
    /// Check for progress, unset until the watchdog runs.
    goes_on: OnceLock<ProgressCheck>,
}

/// Check for progress. The error names what is stalled.
pub(crate) type ProgressCheck = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

impl Preparing {
    /// State before the preparation begins.
    fn new(state: Arc<RunState>, config: Config) -> Arc<Self> {
        let workers = Mutex::default();
        let goes_on = OnceLock::new();
        Arc::new(Self { state, config, started: Instant::now(), workers, goes_on })
    }

    /// Sets the workers that prepare parts.
    fn workers(&self, worker_stats: PoolStats) {
        *self.workers.lock().unwrap_or_else(PoisonError::into_inner) = Some(worker_stats);
    }

    fn actors(&self) -> Vec<ActorStatus> {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.as_ref().map_or_else(Vec::new, worker_status::actors)
    }

    fn has_begun(&self) -> Result<(), String> {
        let has_workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if has_workers { Ok(()) } else { Err("the corpus is being scanned".to_owned()) }
    }
}

impl Backend for Preparing {
    fn status(&self) -> Status {
        let progress = self.state.newest().and_then(|event| match event.what {
            EventKind::PrepareProgress(progress) => Some(progress),
            _ => None,
        });
        Status {
            kind: "prepare",
            phase: if self.has_begun().is_ok() { "prepare" } else { "plan" }.to_owned(),
            since_s: self.started.elapsed().as_secs_f64(),
            progress: progress.map(|progress| progress.share()),
            eta_s: progress.and_then(|progress| progress.eta_s),
            tokens_per_s: progress.map(|progress| progress.tokens_per_s),
            actors: self.actors(),
            memory: MemoryStatus { host_bytes: resident_bytes(), device_bytes: None },
            uptime_s: self.started.elapsed().as_secs_f64(),
            ..Status::default()
        }
    }

    fn health(&self) -> Health {
        Health {
            live: self.goes_on.get().map_or(Ok(()), |goes_on| goes_on()),
            ready: self.has_begun(),
            started: self.has_begun(),
        }
    }

    fn config(&self) -> Result<Value, ApiError> {
        let resolved = toml::to_string(&self.config.resolved()).expect("a configuration is plain values");
        Ok(settings(&resolved, &Config::unwritten().resolved(), None))
    }

    fn rows(&self, _: usize) -> Result<Value, ApiError> {
        Err(ApiError::Unknown(
            "a preparation builds no rows; use `cloze inspect shard` to view prepared rows".to_owned(),
        ))
    }

    fn runs(&self) -> Value {
        json!({ "runs": [] })
    }

    fn history_of(&self, _: &str) -> Result<String, ApiError> {
        Err(ApiError::Unknown("a preparation has no sibling runs".to_owned()))
    }

    fn actions(&self) -> &'static [&'static str] {
        &[]
    }

    fn execute(&self, action: Action) -> Result<String, ApiError> {
        Err(ApiError::Unknown(format!("a preparation does not support the action `{}`", action.name())))
    }
}

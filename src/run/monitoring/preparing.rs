//! A preparation, as those who look at it ask it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use pipeline::prepare::PoolStatsCallback;
use runtime::PoolStats;
use serde_json::{Value, json};
use server::{
    Action, ActorStatus, ApiError, Backend, Health, Kind, ListenAddress, MemoryStatus, RunState, Server, Status,
};
use telemetry::host_memory::resident_bytes;
use telemetry::terminal::note;
use telemetry::{EventKind, Observer};

use super::{about, settings};
use crate::config::Config;
use crate::exit::Usage;
use crate::run::worker_status;

/// Where a preparation is seen, until this is dropped.
pub(crate) struct PrepareBackend {
    seen: Arc<RunState>,
    preparing: Arc<Preparing>,
    _server: Server,
}

impl PrepareBackend {
    /// Serves as `[serve]` says; nothing where it says nothing.
    pub(crate) fn open(config: &Config) -> anyhow::Result<Option<Self>> {
        let seen = RunState::new(about(Kind::Prepare, &config.prepare.folder));
        let preparing = Preparing::new(Arc::clone(&seen), config.clone());
        let bound = |address: &ListenAddress| note(format_args!("seen at {address}"));
        let server = Server::start(&config.serve, &seen, Arc::clone(&preparing) as _, bound).map_err(Usage)?;
        Ok(server.map(|server| Self { seen, preparing, _server: server }))
    }

    /// Who hears what the preparation says.
    pub(crate) fn reader(&self) -> Box<dyn Observer> {
        self.seen.observer()
    }

    /// Who says whether it continues.
    pub(crate) fn watched(&self, goes_on: GoesOn) {
        let _ = self.preparing.goes_on.set(goes_on);
    }

    /// Who is told which workers make parts.
    pub(crate) fn hears(&self) -> PoolStatsCallback {
        let preparing = Arc::clone(&self.preparing);
        Box::new(move |gauges| preparing.workers(gauges))
    }
}

/// A preparation that is looked at. Nothing can be asked of it: a signal stops it, and it has nothing to save.
struct Preparing {
    seen: Arc<RunState>,
    config: Config,
    begun: Instant,
    workers: Mutex<Option<PoolStats>>,
    /// Whether it continues, as soon as somebody watches over that.
    goes_on: OnceLock<GoesOn>,
}

/// Says whether something continues, and what stands still if not.
pub(crate) type GoesOn = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

impl Preparing {
    /// Nothing has begun.
    fn new(seen: Arc<RunState>, config: Config) -> Arc<Self> {
        let (workers, goes_on) = (Mutex::default(), OnceLock::new());
        Arc::new(Self { seen, config, begun: Instant::now(), workers, goes_on })
    }

    /// These workers make parts from now on.
    fn workers(&self, gauges: PoolStats) {
        *self.workers.lock().unwrap_or_else(PoisonError::into_inner) = Some(gauges);
    }

    fn actors(&self) -> Vec<ActorStatus> {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.as_ref().map_or_else(Vec::new, worker_status::actors)
    }

    fn has_begun(&self) -> Result<(), String> {
        let has_workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if has_workers { Ok(()) } else { Err("it reads what the corpus is".to_owned()) }
    }
}

impl Backend for Preparing {
    fn status(&self) -> Status {
        let progress = self.seen.newest().and_then(|event| match event.what {
            EventKind::PrepareProgress(progress) => Some(progress),
            _ => None,
        });
        Status {
            kind: "prepare",
            phase: if self.has_begun().is_ok() { "prepare" } else { "plan" }.to_owned(),
            since_s: self.begun.elapsed().as_secs_f64(),
            progress: progress.map(|progress| progress.share()),
            eta_s: progress.and_then(|progress| progress.eta_s),
            tokens_per_s: progress.map(|progress| progress.tokens_per_s),
            actors: self.actors(),
            memory: MemoryStatus { host_bytes: resident_bytes(), device_bytes: None },
            uptime_s: self.begun.elapsed().as_secs_f64(),
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
        Ok(settings(&resolved, &Config::unwritten().resolved()))
    }

    fn rows(&self, _: usize) -> Result<Value, ApiError> {
        Err(ApiError::Unknown(
            "a preparation makes no rows of its own; `cloze inspect shard` shows what it wrote".to_owned(),
        ))
    }

    fn runs(&self) -> Value {
        json!({ "runs": [] })
    }

    fn history_of(&self, _: &str) -> Result<String, ApiError> {
        Err(ApiError::Unknown("a preparation has no runs next to it".to_owned()))
    }

    fn actions(&self) -> &'static [&'static str] {
        &[]
    }

    fn act(&self, action: Action) -> Result<String, ApiError> {
        Err(ApiError::Unknown(format!("a preparation cannot be asked for `{}`", action.name())))
    }
}

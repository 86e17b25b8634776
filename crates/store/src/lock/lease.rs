//! A lock without its heartbeat: taking, beating, checking, releasing, on a clock that tests can move.

use std::fmt::Debug;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tracing::info;

use super::holder::Holder;
use super::lease_config::{LeaseConfig, LockError};
use crate::backend::{Created, Replaced, Version};
use crate::error::at;
use crate::retry::Retries;
use crate::store::Store;

/// Holders that a contender sees come and go before it gives up.
const CHANGES_MAX: usize = 32;

/// Times that an object of ours is replaced over a beat of ours whose acknowledgement was lost.
const ADOPTIONS_MAX: usize = 4;

/// Monotonic time, as one process sees it.
pub(super) trait Clock: Debug + Send + Sync {
    fn now(&self) -> Duration;
    fn pause(&self, duration: Duration);
}

/// The clock of this machine.
#[derive(Debug)]
pub(super) struct Monotonic(Instant);

impl Default for Monotonic {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Monotonic {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn pause(&self, duration: Duration) {
        thread::sleep(duration);
    }
}

/// What the object says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Content {
    pub(super) holder: Holder,
    counter: u64,
    patience_ms: u64,
    pub(super) released: bool,
}

impl Content {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("text and numbers are JSON");
        bytes.push(b'\n');
        bytes
    }

    /// How long it may stand still.
    pub(super) fn patience(&self) -> Duration {
        Duration::from_millis(self.patience_ms)
    }

    /// What somebody wrote. What is not ours to read has a holder whom nobody knows.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_else(|_| Self {
            holder: Holder::unknown(),
            counter: 0,
            patience_ms: 0,
            released: false,
        })
    }
}

/// A lock that was taken.
#[derive(Debug)]
pub(super) struct LeaseClaim {
    pub(super) store: Store,
    name: String,
    patience: Duration,
    clock: Arc<dyn Clock>,
    holder: Holder,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    content: Content,
    version: Version,
    /// When the newest beat that arrived was begun: nobody saw it earlier.
    beaten: Duration,
    /// Who has it now, in words.
    lost: Option<String>,
}

/// A lock of somebody else, since it last moved.
struct Watched {
    holder: Holder,
    version: Version,
    since: Duration,
}

impl LeaseClaim {
    /// Takes the lock as soon as it may.
    pub(super) fn take(
        store: &Store,
        name: &str,
        holder: Holder,
        terms: LeaseConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, LockError> {
        if terms.beat.is_zero() || terms.patience < terms.beat * 4 {
            let message = format!("a lock needs a beat above zero and a patience of four at least, not {terms:?}");
            return Err(at(store.place(name), &io::Error::new(ErrorKind::InvalidInput, message)).into());
        }
        // What does not answer within a beat or two is asked again at the next.
        let Retries { pause, pause_max, .. } = store.retries();
        let retries = Retries { pause, pause_max: pause_max.min(terms.beat / 4), ..store.retries() };
        let store = store.clone().with_retries(retries);
        let patience_ms = u64::try_from(terms.patience.as_millis()).unwrap_or(u64::MAX);
        let content = Content { holder: holder.clone(), counter: 0, patience_ms, released: false };
        let (version, beaten) = contend(&store, name, &content, terms, &*clock)?;
        let state = Mutex::new(State { content, version, beaten, lost: None });
        Ok(Self { store, name: name.to_owned(), patience: terms.patience, clock, holder, state })
    }

    pub(super) fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Moves the counter.
    pub(super) fn beat(&self) -> io::Result<()> {
        self.move_on(&mut self.state(), |content| content.counter += 1)
    }

    /// That the lock is still ours, and was so less than a third of the patience ago.
    pub(super) fn check(&self) -> io::Result<()> {
        let mut state = self.state();
        if self.clock.now().saturating_sub(state.beaten) >= self.patience / 3 {
            return self.move_on(&mut state, |content| content.counter += 1);
        }
        self.refuse_lost(&state)?;
        let found = self.store.stat(&self.name)?;
        if found.is_some_and(|found| found.version == state.version) { Ok(()) } else { self.adopt(&mut state) }
    }

    /// Leaves the lock to others. One that was lost is theirs already.
    pub(super) fn release(&self) -> io::Result<()> {
        let mut state = self.state();
        let outcome = self.move_on(&mut state, |content| content.released = true);
        if state.lost.is_some() { Ok(()) } else { outcome }
    }

    pub(super) fn is_lost(&self) -> bool {
        self.state().lost.is_some()
    }

    /// Replaces the object by its next content, if it is still ours.
    fn move_on(&self, state: &mut State, next: impl Fn(&mut Content)) -> io::Result<()> {
        self.refuse_lost(state)?;
        for _ in 0..ADOPTIONS_MAX {
            let begun = self.clock.now();
            let mut content = state.content.clone();
            next(&mut content);
            match self.store.replace(&self.name, &content.bytes(), &state.version)? {
                Replaced::Made(stat) => {
                    (state.content, state.version, state.beaten) = (content, stat.version, begun);
                    return Ok(());
                }
                Replaced::Changed => self.adopt(state)?,
            }
        }
        Err(at(self.store.place(&self.name), &io::Error::new(ErrorKind::TimedOut, "the heartbeat does not arrive")))
    }

    /// Takes the object's version for ours if the object is: a beat arrived whose acknowledgement did not. Else the
    /// lock is lost.
    fn adopt(&self, state: &mut State) -> io::Result<()> {
        let found = self.store.read_with_stat(&self.name)?;
        let words = match found.map(|(bytes, stat)| (Content::parse(&bytes), stat)) {
            Some((content, stat)) if content.holder.is_same(&self.holder) => {
                (state.content, state.version) = (content, stat.version);
                return Ok(());
            }
            Some((content, _)) if content.released => format!("{} had it and released it", content.holder),
            Some((content, _)) => format!("{} has it", content.holder),
            None => "somebody removed it".to_owned(),
        };
        state.lost = Some(words);
        self.refuse_lost(state)
    }

    fn refuse_lost(&self, state: &State) -> io::Result<()> {
        let Some(words) = &state.lost else { return Ok(()) };
        let message = format!(
            "the lock is no longer ours: {words}; this process stood still or was cut off for too long, so end it"
        );
        Err(at(self.store.place(&self.name), &io::Error::new(ErrorKind::ResourceBusy, message)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }
}

/// Who holds the lock, at a glance.
pub(super) fn seen(store: &Store, name: &str) -> io::Result<Option<Holder>> {
    let Some((bytes, stat)) = store.read_with_stat(name)? else { return Ok(None) };
    let content = Content::parse(&bytes);
    let still = stat.modified.elapsed().is_ok_and(|still| still > Duration::from_millis(content.patience_ms));
    let is_free = content.released || still || Holder::this_process().sees_gone(&content.holder);
    Ok((!is_free).then_some(content.holder))
}

/// Watches the lock until it may be taken, and takes it. Returns its version, and when the taking began.
fn contend(
    store: &Store,
    name: &str,
    content: &Content,
    terms: LeaseConfig,
    clock: &dyn Clock,
) -> Result<(Version, Duration), LockError> {
    let bytes = content.bytes();
    let mut watched: Option<Watched> = None;
    let mut changes = 0;
    loop {
        let begun = clock.now();
        let Some((found, stat)) = store.read_with_stat(name)? else {
            match store.create(name, &bytes)? {
                Created::Made(stat) => return Ok((stat.version, begun)),
                // Another was faster. What can never be read is a link that leads nowhere.
                Created::Exists if changes < CHANGES_MAX => {
                    changes += 1;
                    continue;
                }
                Created::Exists => return Err(at(store.place(name), &ErrorKind::NotFound.into()).into()),
            }
        };
        let found = Content::parse(&found);
        let patience = terms.patience.max(found.patience());
        let stands_still = watched
            .as_ref()
            .is_some_and(|watched| watched.version == stat.version && begun.saturating_sub(watched.since) >= patience);
        let gone = content.holder.sees_gone(&found.holder);
        if (found.released || gone || stands_still)
            && let Replaced::Made(stat) = store.replace(name, &bytes, &stat.version)?
        {
            if !found.released {
                info!(place = store.place(name), before = %found.holder, gone, "took over a lock");
            }
            return Ok((stat.version, begun));
        }
        match &watched {
            Some(watched) if watched.version == stat.version => {}
            // It moves: its holder is alive.
            Some(watched) if watched.holder.is_same(&found.holder) || changes == CHANGES_MAX => {
                return Err(LockError::Held { place: store.place(name), holder: Box::new(found.holder) });
            }
            _ => {
                watched = Some(Watched { holder: found.holder, version: stat.version, since: clock.now() });
                changes += 1;
            }
        }
        clock.pause(terms.beat / 4);
    }
}

//! Lock without its heartbeat thread: take, heartbeat, check and release, on a clock that tests control.

use std::fmt::Debug;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tracing::info;

use super::holder::Holder;
use super::lease_config::{LeaseConfig, LockError, MAX_TAKEOVER_DELAY};
use crate::backend::{Created, Replaced, Version};
use crate::error::with_place;
use crate::retry::Retries;
use crate::store::Store;

/// Maximum number of holder changes before a contender gives up.
const CHANGES_MAX: usize = 32;

/// Maximum replacements of our object over a heartbeat whose acknowledgement was lost.
const ADOPTIONS_MAX: usize = 4;

/// Monotonic clock of one process.
pub(super) trait Clock: Debug + Send + Sync {
    fn now(&self) -> Duration;
    fn pause(&self, duration: Duration);
}

/// Clock of this machine.
#[derive(Debug)]
pub(super) struct MonotonicClock(Instant);

impl Default for MonotonicClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn pause(&self, duration: Duration) {
        thread::sleep(duration);
    }
}

/// Content of the lock object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Content {
    pub(super) holder: Holder,
    counter: u64,
    takeover_delay_ms: u64,
    pub(super) released: bool,
}

impl Content {
    fn new(holder: Holder, terms: LeaseConfig) -> Self {
        let takeover_delay_ms = u64::try_from(terms.takeover_delay.as_millis()).unwrap_or(u64::MAX);
        Self { holder, counter: 0, takeover_delay_ms, released: false }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("text and numbers are JSON");
        bytes.push(b'\n');
        bytes
    }

    /// Returns the time without a heartbeat after which the lock may be taken over.
    pub(super) fn takeover_delay(&self) -> Duration {
        Duration::from_millis(self.takeover_delay_ms).min(MAX_TAKEOVER_DELAY)
    }

    /// Parses the object. Unreadable content has an unknown holder.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_else(|_| Self {
            holder: Holder::unknown(),
            counter: 0,
            takeover_delay_ms: 0,
            released: false,
        })
    }
}

/// Lock that was taken.
#[derive(Debug)]
pub(super) struct LeaseClaim {
    pub(super) store: Store,
    name: String,
    takeover_delay: Duration,
    clock: Arc<dyn Clock>,
    holder: Holder,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    content: Content,
    version: Version,
    /// Start of the newest heartbeat that arrived: no observer saw it earlier.
    renewed_at: Duration,
    /// Display text of the new holder, if the lock is lost.
    lost: Option<String>,
}

/// Lock of another holder, since its counter last advanced.
#[derive(Debug)]
pub(super) struct ObservedLease {
    pub(super) holder: Holder,
    pub(super) version: Version,
    pub(super) since: Duration,
}

impl LeaseClaim {
    /// Takes the lock as soon as the rules allow.
    pub(super) fn acquire(
        store: &Store,
        name: &str,
        holder: Holder,
        terms: LeaseConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, LockError> {
        let store = with_short_retries(store, name, terms)?;
        let content = Content::new(holder, terms);
        let (version, begun) = try_claim(&store, name, &content, terms, &*clock)?;
        Ok(Self::taken(store, name, terms, clock, content, version, begun))
    }

    /// Takes the lock if it is free now. Otherwise returns `None`, and updates what is known about its holder.
    pub(super) fn try_acquire(
        store: &Store,
        name: &str,
        holder: &Holder,
        terms: LeaseConfig,
        clock: Arc<dyn Clock>,
        watched: &mut Option<ObservedLease>,
    ) -> Result<Option<Self>, LockError> {
        let store = with_short_retries(store, name, terms)?;
        let content = Content::new(holder.clone(), terms);
        match attempt(&store, name, &content, watched.as_ref(), terms, &*clock)? {
            Attempt::Taken { version, begun } => {
                Ok(Some(Self::taken(store, name, terms, clock, content, version, begun)))
            }
            Attempt::Refused(found) => {
                if watched.as_ref().is_none_or(|watched| watched.version != found.version) {
                    *watched = Some(found);
                }
                Ok(None)
            }
            Attempt::Raced => Ok(None),
        }
    }

    fn taken(
        store: Store,
        name: &str,
        terms: LeaseConfig,
        clock: Arc<dyn Clock>,
        content: Content,
        version: Version,
        begun: Duration,
    ) -> Self {
        let holder = content.holder.clone();
        let state = Mutex::new(State { content, version, renewed_at: begun, lost: None });
        Self { store, name: name.to_owned(), takeover_delay: terms.takeover_delay, clock, holder, state }
    }

    pub(super) fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Increments the counter.
    pub(super) fn renew(&self) -> io::Result<()> {
        self.move_on(&mut self.state(), |content| content.counter += 1)
    }

    /// Checks that the store refuses a second create, and a second replacement of one version.
    pub(super) fn check_exclusion(&self) -> io::Result<()> {
        let mut state = self.state();
        // Never equal to a content that a heartbeat writes.
        let second = Content { counter: u64::MAX, ..state.content.clone() }.bytes();
        let replaced = state.version.clone();
        if let Created::Made(_) = self.store.put_if_absent(&self.name, &second)? {
            return Err(self.unsafe_store("creates of an object that exists (`If-None-Match`)"));
        }
        self.move_on(&mut state, |content| content.counter += 1)?;
        if let Replaced::Made(_) = self.store.put_if_version(&self.name, &second, &replaced)? {
            return Err(self.unsafe_store("replacements of a version that has ended (`If-Match`)"));
        }
        Ok(())
    }

    fn unsafe_store(&self, accepts: &str) -> io::Error {
        let message = format!(
            "the store accepts {accepts}, so two writers would not notice each other; use a server with conditional writes"
        );
        with_place(self.store.place(&self.name), &io::Error::new(ErrorKind::Unsupported, message))
    }

    /// Checks that this process holds the lock and held it less than a third of the takeover delay ago.
    pub(super) fn check(&self) -> io::Result<()> {
        let mut state = self.state();
        if self.clock.now().saturating_sub(state.renewed_at) >= self.takeover_delay / 3 {
            return self.move_on(&mut state, |content| content.counter += 1);
        }
        self.refuse_lost(&state)?;
        let version = state.version.clone();
        // Without the mutex: workers check at the same time, and a heartbeat meanwhile is adopted.
        drop(state);
        let found = self.store.head(&self.name)?;
        if found.is_some_and(|found| found.version == version) { Ok(()) } else { self.adopt_found(&mut self.state()) }
    }

    /// Releases the lock: later checks fail, also those of a thread that outlives the lock. A lost lock needs no
    /// release.
    pub(super) fn release(&self) -> io::Result<()> {
        let mut state = self.state();
        let outcome = self.move_on(&mut state, |content| content.released = true);
        if state.lost.is_some() { Ok(()) } else { outcome }
    }

    pub(super) fn is_lost(&self) -> bool {
        self.state().lost.is_some()
    }

    /// Returns an error if an earlier heartbeat or check found that the lock is lost. Sends no request.
    pub(super) fn refuse_known_loss(&self) -> io::Result<()> {
        self.refuse_lost(&self.state())
    }

    /// Replaces the object by its next content, if this process still holds the lock.
    fn move_on(&self, state: &mut State, next: impl Fn(&mut Content)) -> io::Result<()> {
        self.refuse_lost(state)?;
        for _ in 0..ADOPTIONS_MAX {
            let begun = self.clock.now();
            let mut content = state.content.clone();
            next(&mut content);
            match self.store.put_if_version(&self.name, &content.bytes(), &state.version)? {
                Replaced::Made(stat) => {
                    (state.content, state.version, state.renewed_at) = (content, stat.version, begun);
                    return Ok(());
                }
                Replaced::Changed => self.adopt_found(state)?,
            }
        }
        Err(with_place(
            self.store.place(&self.name),
            &io::Error::new(ErrorKind::TimedOut, "the heartbeat does not arrive"),
        ))
    }

    /// Adopts the object's version if this process wrote it: a heartbeat arrived whose acknowledgement was lost. Otherwise
    /// the lock is lost.
    fn adopt_found(&self, state: &mut State) -> io::Result<()> {
        let found = self.store.get_with_stat(&self.name)?;
        let words = match found.map(|(bytes, stat)| (Content::parse(&bytes), stat)) {
            Some((content, stat)) if content.holder.is_same(&self.holder) => {
                (state.content, state.version) = (content, stat.version);
                return Ok(());
            }
            Some((content, _)) if content.released => format!("{} had it and released it", content.holder),
            Some((content, _)) => format!("{} has it", content.holder),
            None => "the lock object was removed".to_owned(),
        };
        state.lost = Some(words);
        self.refuse_lost(state)
    }

    fn refuse_lost(&self, state: &State) -> io::Result<()> {
        let message = match &state.lost {
            Some(words) => format!(
                "lost the lock: {words}; this process did not renew it in time; give the command again when the other process has ended"
            ),
            None if state.content.released => "this process has released the lock, so it writes no more".to_owned(),
            None => return Ok(()),
        };
        Err(with_place(self.store.place(&self.name), &io::Error::new(ErrorKind::ResourceBusy, message)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }
}

/// Returns the store with retries that end within one or two heartbeats: the next heartbeat retries. Refuses invalid
/// terms.
fn with_short_retries(store: &Store, name: &str, terms: LeaseConfig) -> io::Result<Store> {
    let shortest = terms.heartbeat_interval * 4;
    if terms.heartbeat_interval.is_zero() || !(shortest..=MAX_TAKEOVER_DELAY).contains(&terms.takeover_delay) {
        let message = format!(
            "the heartbeat interval must be above 0, and the takeover delay at least four intervals and at most an \
             hour, not {terms:?}"
        );
        return Err(with_place(store.place(name), &io::Error::new(ErrorKind::InvalidInput, message)));
    }
    let Retries { pause_max, within, .. } = store.retries();
    let heartbeat = terms.heartbeat_interval;
    let retries =
        Retries { pause_max: pause_max.min(heartbeat / 4), within: within.min(heartbeat * 2), ..store.retries() };
    Ok(store.clone().with_retries(retries))
}

/// Whether an object is readable as a lock.
pub(super) fn is_lock(store: &Store, name: &str) -> io::Result<bool> {
    let found = store.get_with_stat(name)?;
    Ok(found.is_some_and(|(bytes, _)| serde_json::from_slice::<Content>(&bytes).is_ok()))
}

/// Returns the apparent holder of the lock.
pub(super) fn seen(store: &Store, name: &str) -> io::Result<Option<Holder>> {
    let Some((bytes, stat)) = store.get_with_stat(name)? else { return Ok(None) };
    let content = Content::parse(&bytes);
    let still = stat.modified.elapsed().is_ok_and(|still| still > content.takeover_delay());
    let is_free = content.released || still || Holder::this_process().sees_gone(&content.holder);
    Ok((!is_free).then_some(content.holder))
}

/// Observes the lock until it may be taken, and takes it. Returns its version and the time when the claim began.
fn try_claim(
    store: &Store,
    name: &str,
    content: &Content,
    terms: LeaseConfig,
    clock: &dyn Clock,
) -> Result<(Version, Duration), LockError> {
    let mut watched: Option<ObservedLease> = None;
    let mut changes = 0;
    loop {
        let found = match attempt(store, name, content, watched.as_ref(), terms, clock)? {
            Attempt::Taken { version, begun } => return Ok((version, begun)),
            Attempt::Refused(found) => found,
            // Another contender was faster. A permanently unreadable object is a dangling link.
            Attempt::Raced if changes < CHANGES_MAX => {
                changes += 1;
                continue;
            }
            Attempt::Raced => return Err(with_place(store.place(name), &ErrorKind::NotFound.into()).into()),
        };
        match &watched {
            Some(watched) if watched.version == found.version => {}
            // The counter advances: the holder is alive.
            Some(watched) if watched.holder.is_same(&found.holder) || changes == CHANGES_MAX => {
                return Err(LockError::Held { place: store.place(name), holder: Box::new(found.holder) });
            }
            _ => {
                watched = Some(found);
                changes += 1;
            }
        }
        clock.pause(terms.heartbeat_interval / 4);
    }
}

/// Result of one attempt to take a lock.
pub(super) enum Attempt {
    Taken {
        version: Version,
        begun: Duration,
    },
    /// Another holder has it, as far as is known.
    Refused(ObservedLease),
    /// Another contender created the object meanwhile.
    Raced,
}

/// Takes the lock if it is free now: absent, released, of a holder that is gone, or not renewed since it was `watched`
/// for the takeover delay. Does not wait.
pub(super) fn attempt(
    store: &Store,
    name: &str,
    content: &Content,
    watched: Option<&ObservedLease>,
    terms: LeaseConfig,
    clock: &dyn Clock,
) -> Result<Attempt, LockError> {
    let bytes = content.bytes();
    let begun = clock.now();
    let Some((found, stat)) = store.get_with_stat(name)? else {
        return Ok(match store.put_if_absent(name, &bytes)? {
            Created::Made(stat) => Attempt::Taken { version: stat.version, begun },
            Created::Exists => Attempt::Raced,
        });
    };
    let found = Content::parse(&found);
    let takeover_delay = terms.takeover_delay.max(found.takeover_delay());
    let stands_still = watched.is_some_and(|watched| {
        watched.version == stat.version && begun.saturating_sub(watched.since) >= takeover_delay
    });
    let gone = content.holder.sees_gone(&found.holder);
    if (found.released || gone || stands_still)
        && let Replaced::Made(stat) = store.put_if_version(name, &bytes, &stat.version)?
    {
        if !found.released {
            info!(place = store.place(name), before = %found.holder, gone, "took over a lock");
        }
        return Ok(Attempt::Taken { version: stat.version, begun });
    }
    Ok(Attempt::Refused(ObservedLease { holder: found.holder, version: stat.version, since: clock.now() }))
}

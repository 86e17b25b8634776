//! Options of network stores: environment and time limits.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::time::Duration;

use store::Retries;

/// Time without progress after which a request fails.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest time to open a connection.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Name of this program in requests.
pub(crate) const USER_AGENT: &str = concat!("cloze/", env!("CARGO_PKG_VERSION"));

/// Ten calls within half a minute. Pauses of milliseconds would slow an overloaded server further.
const RETRIES: Retries = Retries {
    attempts_max: 10,
    pause: Duration::from_millis(100),
    pause_max: Duration::from_secs(10),
    within: Duration::from_secs(30),
};

/// Options of a network store.
#[derive(Clone)]
pub struct StoreOptions {
    /// Environment variables with endpoints and credentials.
    pub environment: BTreeMap<String, String>,
    /// Time without progress after which a request fails, and is repeated.
    pub stall_timeout: Duration,
    /// Retry policy of the store.
    pub retries: Retries,
}

impl StoreOptions {
    /// Returns the options with the environment of this process. Variables that are not UTF-8 are skipped.
    pub fn from_env() -> Self {
        let variables = std::env::vars_os();
        Self::new(variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))))
    }

    /// Returns the options with these environment variables.
    pub fn new(environment: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { environment: environment.into_iter().collect(), stall_timeout: STALL_TIMEOUT, retries: RETRIES }
    }

    /// Returns the value of a variable that is set and not empty. White space at its ends is no part of it: secrets that
    /// are read from files often end with a line break.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }
}

/// Without the environment: it contains credentials.
impl Debug for StoreOptions {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("StoreOptions");
        shown.field("stall_timeout", &self.stall_timeout).field("retries", &self.retries).finish_non_exhaustive()
    }
}

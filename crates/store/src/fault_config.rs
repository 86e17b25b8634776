//! Weather: latency, failures and lost acknowledgements, all by seed.
//!
//! # Definition
//! The n-th call of an operation on a name draws two numbers from (seed, operation, name, n): below `failures`, it fails
//! and has no effect; else, below `lost`, it has its effect and fails nevertheless. So the weather does not depend on how
//! threads interleave, as long as each name has one caller.

use std::time::Duration;

/// How unfriendly a store is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultConfig {
    /// What its draws begin with.
    pub seed: u64,
    /// Time that each call takes.
    pub latency: Duration,
    /// Share of calls that fail before they have their effect.
    pub failures: f64,
    /// Share of the others that have their effect, and fail nevertheless: lost acknowledgements.
    pub lost: f64,
}

impl FaultConfig {
    /// No wind at all.
    pub fn calm() -> Self {
        Self::default()
    }

    /// The weather of one call.
    pub(crate) fn strikes(&self, operation: &str, name: &str, attempt: u64) -> Strike {
        let address = format!("{} {operation} {attempt} {name}", self.seed);
        let [failure, loss] = draws(&address);
        match () {
            () if failure < self.failures => Strike::Before,
            () if loss < self.lost => Strike::After,
            () => Strike::Never,
        }
    }
}

/// Two uniform numbers of [0, 1) that an address names.
#[must_use]
pub fn draws(address: &str) -> [f64; 2] {
    let mut draws = [0_u64; 2];
    for (draw, bytes) in draws.iter_mut().zip(blake3::hash(address.as_bytes()).as_bytes().chunks_exact(8)) {
        *draw = u64::from_le_bytes(bytes.try_into().expect("chunks of eight bytes"));
    }
    // The upper 53 bits are a uniform number of [0, 1), exactly.
    draws.map(|draw| (draw >> 11) as f64 / (1_u64 << 53) as f64)
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strike {
    /// It failed without an effect.
    Before,
    /// It had its effect, and nobody heard of it.
    After,
    /// Nothing.
    Never,
}

/// What a store went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls of any operation.
    pub calls: u64,
    /// Those that failed without an effect.
    pub failed: u64,
    /// Those that had their effect and whose acknowledgement was lost.
    pub lost: u64,
}

impl Calls {
    /// One more call.
    pub(crate) fn count(&mut self, strike: Strike) {
        self.calls += 1;
        match strike {
            Strike::Before => self.failed += 1,
            Strike::After => self.lost += 1,
            Strike::Never => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of a hundred calls strike, and how.
    fn forecast(weather: FaultConfig, name: &str) -> String {
        (0..100)
            .map(|attempt| match weather.strikes("put", name, attempt) {
                Strike::Never => '.',
                Strike::Before => 'x',
                Strike::After => '?',
            })
            .collect()
    }

    #[test]
    fn the_weather_is_its_seed() {
        let weather = FaultConfig { seed: 7, failures: 0.3, lost: 0.3, ..FaultConfig::calm() };
        let found = forecast(weather, "a");
        assert_eq!(found, forecast(weather, "a"));
        assert_ne!(found, forecast(weather, "b"));
        assert_ne!(found, forecast(FaultConfig { seed: 8, ..weather }, "a"));
        // Of a hundred, 30 fail before and 21 after: within four standard errors.
        let count = |sign| found.matches(sign).count();
        assert!((12..=48).contains(&count('x')) && (5..=37).contains(&count('?')), "{found}");
        assert_eq!(forecast(FaultConfig { lost: 1.0, ..FaultConfig::calm() }, "a"), "?".repeat(100));
        assert_eq!(forecast(FaultConfig::calm(), "a"), ".".repeat(100));
    }
}

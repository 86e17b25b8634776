//! Injected faults: latency, failures and lost acknowledgements, determined by a seed.
//!
//! # Definition
//! The n-th call of an operation on a name draws two numbers from (seed, operation, name, n). If the first is below
//! `failures`, the call fails without an effect. Otherwise, if the second is below `lost`, the call has its effect and
//! fails. The faults do not depend on thread interleaving as long as each name has one caller.

use std::time::Duration;

/// Rates of injected faults.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultConfig {
    /// Seed of all draws.
    pub seed: u64,
    /// Duration of each call.
    pub latency: Duration,
    /// Share of calls that fail before they have their effect.
    pub failures: f64,
    /// Share of the other calls that have their effect and still fail: lost acknowledgements.
    pub lost: f64,
}

impl FaultConfig {
    /// Returns a configuration without faults.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns the fault of one call.
    pub(crate) fn fault_for(&self, operation: &str, name: &str, attempt: u64) -> InjectedFault {
        let address = format!("{} {operation} {attempt} {name}", self.seed);
        let [failure, loss] = draws(&address);
        match () {
            () if failure < self.failures => InjectedFault::Before,
            () if loss < self.lost => InjectedFault::After,
            () => InjectedFault::Never,
        }
    }
}

/// Returns two uniform numbers of [0, 1), determined by an address.
#[must_use]
pub fn draws(address: &str) -> [f64; 2] {
    let mut draws = [0_u64; 2];
    for (draw, bytes) in draws.iter_mut().zip(blake3::hash(address.as_bytes()).as_bytes().chunks_exact(8)) {
        *draw = u64::from_le_bytes(bytes.try_into().expect("chunks of eight bytes"));
    }
    // The upper 53 bits are a uniform number of [0, 1), exactly.
    draws.map(|draw| (draw >> 11) as f64 / (1_u64 << 53) as f64)
}

/// Fault of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InjectedFault {
    /// The call fails without an effect.
    Before,
    /// The call has its effect, but its acknowledgement is lost.
    After,
    /// No fault.
    Never,
}

/// Call counts of a store with injected faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls of any operation.
    pub calls: u64,
    /// Calls that failed without an effect.
    pub failed: u64,
    /// Calls that had their effect and whose acknowledgement was lost.
    pub lost: u64,
}

impl Calls {
    /// Counts one call.
    pub(crate) fn count(&mut self, strike: InjectedFault) {
        self.calls += 1;
        match strike {
            InjectedFault::Before => self.failed += 1,
            InjectedFault::After => self.lost += 1,
            InjectedFault::Never => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one sign per call, for a hundred calls: the faults in their order.
    fn forecast(faults: FaultConfig, name: &str) -> String {
        (0..100)
            .map(|attempt| match faults.fault_for("put", name, attempt) {
                InjectedFault::Never => '.',
                InjectedFault::Before => 'x',
                InjectedFault::After => '?',
            })
            .collect()
    }

    #[test]
    fn faults_depend_on_the_seed_alone() {
        let faults = FaultConfig { seed: 7, failures: 0.3, lost: 0.3, ..FaultConfig::none() };
        let found = forecast(faults, "a");
        assert_eq!(found, forecast(faults, "a"));
        assert_ne!(found, forecast(faults, "b"));
        assert_ne!(found, forecast(FaultConfig { seed: 8, ..faults }, "a"));
        // Of a hundred, 30 fail before and 21 after: within four standard errors.
        let count = |sign| found.matches(sign).count();
        assert!((12..=48).contains(&count('x')) && (5..=37).contains(&count('?')), "{found}");
        assert_eq!(forecast(FaultConfig { lost: 1.0, ..FaultConfig::none() }, "a"), "?".repeat(100));
        assert_eq!(forecast(FaultConfig::none(), "a"), ".".repeat(100));
    }
}

//! Fault injection: `--inject-faults FILE|SPEC`.
//!
//! # What
//! A list of faults that are injected into a run or a preparation: workers that panic or are slow, a store that fails
//! or loses answers, a process that is killed.
//!
//! # Why
//! Users can verify the guarantees on failures with their own data, disk and batch system.
//!
//! # Definition
//! | fault | effect |
//! |---|---|
//! | `seed=7` | seed of all random draws; default 0 |
//! | `panic=worker:0.01` | for 1 % of the rows, the worker that builds the row panics once; the retry succeeds |
//! | `panic=row:17` | each attempt to build row 17 of the stream panics: a bad row |
//! | `slow=worker:0.01:5ms` | 1 % of the rows take 5 ms longer |
//! | `eio=store:0.01` | 1 % of the store calls fail with EIO and have no effect |
//! | `lost=store:0.01` | 1 % of the store calls take effect and fail as if they had timed out |
//! | `kill=step:40` | SIGKILL after step 40, once |
//! | `kill=part:3` | SIGKILL after part 3 of a corpus, once |
//!
//! Each fault is drawn from its address (seed, actor, item, attempt), so that a seed reproduces the schedule. Random
//! panics spare the last attempt at a row, so that the run has the same result as without faults. A kill is recorded in
//! `fault_injection.json` of the folder before it occurs, so that the next process does not repeat it.
//!
//! A file has the same keys in TOML: `seed = 7`, `panic = "worker:0.01"`, `kill = ["step:40", "step:80"]`.

mod fault_injector;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

pub use self::fault_injector::FaultInjector;
use crate::exit::Usage;

/// Point at which a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kill {
    /// After that number of steps of a run.
    Step(u64),
    /// After the part of a corpus with that number.
    Part(u64),
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(step) => write!(f, "step:{step}"),
            Self::Part(part) => write!(f, "part:{part}"),
        }
    }
}

/// Faults to inject.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    seed: u64,
    /// Share of rows at which a worker panics once.
    panics: f64,
    /// Rows at which every worker panics.
    bad_rows: BTreeSet<u64>,
    /// Share of rows that take longer, and the additional time.
    slow: (f64, Duration),
    /// Share of store calls that fail without effect, and share of those that fail after their effect.
    eio: f64,
    lost: f64,
    kills: BTreeSet<Kill>,
}

/// An example of each fault. Errors about unknown faults list them.
const FORMS: [&str; 8] = [
    "seed=7",
    "panic=worker:0.01",
    "panic=row:17",
    "slow=worker:0.01:5ms",
    "eio=store:0.01",
    "lost=store:0.01",
    "kill=step:40",
    "kill=part:3",
];

impl FaultPlan {
    /// Parses a list of faults, or the file of that name.
    ///
    /// # Errors
    /// [`Usage`] with the valid forms.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let pairs = if text.contains('=') { parse_list(text)? } else { read_file(text)? };
        let mut plan = Self::default();
        for (key, value) in &pairs {
            plan.add(key, value).with_context(|| {
                let choices = FORMS.join(", ");
                Usage(format!("--inject-faults: unknown fault `{key}={value}`; valid forms: {choices}"))
            })?;
        }
        Ok(plan)
    }

    fn add(&mut self, key: &str, value: &str) -> Option<()> {
        let (what, rest) = value.split_once(':').unwrap_or(("", value));
        match (key, what) {
            ("seed", "") => self.seed = rest.parse().ok()?,
            ("panic", "worker") => self.panics = share(rest)?,
            ("panic", "row") => drop(self.bad_rows.insert(rest.parse().ok()?)),
            ("slow", "worker") => {
                let (of, longer) = rest.split_once(':')?;
                self.slow = (share(of)?, Duration::from_millis(longer.strip_suffix("ms")?.parse().ok()?));
            }
            ("eio", "store") => self.eio = share(rest)?,
            ("lost", "store") => self.lost = share(rest)?,
            ("kill", "step") => drop(self.kills.insert(Kill::Step(rest.parse().ok()?))),
            ("kill", "part") => drop(self.kills.insert(Kill::Part(rest.parse().ok()?))),
            _ => return None,
        }
        Some(())
    }
}

fn share(text: &str) -> Option<f64> {
    text.parse().ok().filter(|share| (0.0..=1.0).contains(share))
}

/// Parses a comma-separated list of `key=value`.
fn parse_list(text: &str) -> anyhow::Result<Vec<(String, String)>> {
    let pair = |part: &str| {
        let (key, value) = part.split_once('=')?;
        Some((key.trim().to_owned(), value.trim().to_owned()))
    };
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let refuse =
                || Usage(format!("--inject-faults: unknown fault `{part}`; valid forms: {}", FORMS.join(", ")));
            pair(part).with_context(refuse)
        })
        .collect()
}

/// Parses a TOML file with the same keys.
fn read_file(path: &str) -> anyhow::Result<Vec<(String, String)>> {
    let refuse =
        |problem: String| Usage(format!("--inject-faults {path}: {problem}; give a file, or a list like {}", FORMS[1]));
    let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    let table: toml::Table = toml::from_str(&text).map_err(|error| refuse(error.message().to_owned()))?;
    let mut pairs = Vec::new();
    for (key, value) in table {
        let values = match value {
            toml::Value::Array(values) => values,
            value => vec![value],
        };
        for value in values {
            let text = match value {
                toml::Value::String(text) => text,
                other => other.to_string(),
            };
            pairs.push((key.clone(), text));
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use store::Store;

    use super::*;

    #[test]
    fn a_list_and_a_file_have_the_same_meaning() {
        let list = "seed=7,panic=worker:0.001, panic=row:17,slow=worker:0.5:5ms,eio=store:0.01,lost=store:1,kill=step:40,kill=step:80,kill=part:3";
        let expected = FaultPlan {
            seed: 7,
            panics: 0.001,
            bad_rows: [17].into(),
            slow: (0.5, Duration::from_millis(5)),
            eio: 0.01,
            lost: 1.0,
            kills: [Kill::Step(40), Kill::Step(80), Kill::Part(3)].into(),
        };
        assert_eq!(FaultPlan::parse(list).expect("good"), expected);
        let home = tempfile::tempdir().expect("a temporary folder");
        let folder = Store::folder(home.path()).expect("there");
        let path = home.path().join("faults.toml");
        let text = r#"
            seed = 7
            panic = ["worker:0.001", "row:17"]
            slow = "worker:0.5:5ms"
            eio = "store:0.01"
            lost = "store:1"
            kill = ["step:40", "part:3", "step:80"]
        "#;
        folder.put("faults.toml", text.as_bytes()).expect("written");
        assert_eq!(FaultPlan::parse(&path.display().to_string()).expect("good"), expected);
        for form in FORMS {
            FaultPlan::parse(form).expect("what is offered is taken");
        }
    }

    #[test]
    fn an_unknown_fault_is_a_usage_error_with_the_valid_forms() {
        for text in [
            "panic=worker:2",
            "panic=worker",
            "panic=disk:0.1",
            "slow=worker:0.1",
            "slow=worker:0.1:5",
            "kill=step:x",
            "seed=x",
            "seed=1:2",
            "nap=worker:1",
            "eio=store:nan",
            "eio=store:-1",
            "panic=worker:0.1,oops",
            "/no/such/file",
            "",
        ] {
            let error = FaultPlan::parse(text).expect_err(text);
            assert!(error.is::<Usage>(), "{text}: {error:#}");
            assert!(format!("{error:#}").contains("panic=worker:0.01"), "{text}: {error:#}");
        }
    }
}

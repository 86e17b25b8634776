//! Faults on purpose: `--inject-faults FILE|SPEC`.
//!
//! # What
//! A list of faults that a run or a preparation is to live with: workers that panic or are slow, a store that fails or
//! forgets to answer, a process that is killed.
//!
//! # Why
//! What is promised of failures is worth what one has seen of it, with one's own data, disk and batch system.
//!
//! # Definition
//! | fault | what happens |
//! |---|---|
//! | `seed=7` | what all shares are drawn with; 0 if not given |
//! | `panic=worker:0.01` | of 100 rows, the worker that makes one panics; rebuilt, it is well |
//! | `panic=row:17` | whenever row 17 of the stream is made, its worker panics: a row that cannot be made |
//! | `slow=worker:0.01:5ms` | of 100 rows, one takes 5 ms longer |
//! | `eio=store:0.01` | of 100 calls of the store, one ends with EIO and has no effect |
//! | `lost=store:0.01` | of 100 calls of the store, one has its effect and ends as if it had timed out |
//! | `kill=step:40` | SIGKILL when 40 steps are done, once |
//! | `kill=part:3` | SIGKILL when part 3 of a corpus is done, once |
//!
//! Every fault is drawn at an address, (seed, actor, item, attempt), so that a schedule comes again by its seed. No share
//! strikes the last attempt at a row: then the run ends as in calm. A kill is written down before it comes, in
//! `fault_injection.json` of the folder, so that the next process passes it.
//!
//! A file is the same in TOML: `seed = 7`, `panic = "worker:0.01"`, `kill = ["step:40", "step:80"]`.

mod fault_injector;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

pub use self::fault_injector::FaultInjector;
use crate::exit::Usage;

/// Where a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kill {
    /// So many steps of a run are done.
    Step(u64),
    /// The part of a corpus of that number is done.
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

/// What is to happen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    seed: u64,
    /// Share of rows at which a worker panics, once each.
    panics: f64,
    /// Rows at which every worker panics.
    bad_rows: BTreeSet<u64>,
    /// Share of rows that take longer, and how much.
    slow: (f64, Duration),
    /// Shares of the store's calls.
    eio: f64,
    lost: f64,
    kills: BTreeSet<Kill>,
}

/// One fault as it is written; all of them are in the error of one that is not known.
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
    /// Reads a list of faults, or the file of that name.
    ///
    /// # Errors
    /// [`Usage`] with what can be written.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let pairs = if text.contains('=') { listed(text)? } else { filed(text)? };
        let mut chaos = Self::default();
        for (key, value) in &pairs {
            chaos.add(key, value).with_context(|| {
                let choices = FORMS.join(", ");
                Usage(format!("--inject-faults: `{key}={value}` is no fault; those that there are look like {choices}"))
            })?;
        }
        Ok(chaos)
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

/// `key=value`, one after another.
fn listed(text: &str) -> anyhow::Result<Vec<(String, String)>> {
    let pair = |part: &str| {
        let (key, value) = part.split_once('=')?;
        Some((key.trim().to_owned(), value.trim().to_owned()))
    };
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let refuse =
                || Usage(format!("--inject-faults: `{part}` is no fault; write one like {}", FORMS.join(", ")));
            pair(part).with_context(refuse)
        })
        .collect()
}

/// The same of a file.
fn filed(path: &str) -> anyhow::Result<Vec<(String, String)>> {
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
    fn a_list_and_a_file_say_the_same() {
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
        let (folder, path) = (Store::folder(home.path()).expect("there"), home.path().join("storm.toml"));
        let text = r#"
            seed = 7
            panic = ["worker:0.001", "row:17"]
            slow = "worker:0.5:5ms"
            eio = "store:0.01"
            lost = "store:1"
            kill = ["step:40", "part:3", "step:80"]
        "#;
        folder.put("storm.toml", text.as_bytes()).expect("written");
        assert_eq!(FaultPlan::parse(&path.display().to_string()).expect("good"), expected);
        for form in FORMS {
            FaultPlan::parse(form).expect("what is offered is taken");
        }
    }

    #[test]
    fn what_is_no_fault_is_a_mistake_of_usage_with_the_choices() {
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

//! Tests of measured times with planted delays: `make test-timing`, on a machine without other load.
//!
//! The tests run one after another and without retries. The gate runs the same commands without checking times.

use serde_json::Value;
use testkit::{Home, profile_args};

mod profile;
mod scaling;
mod train_profiles;
mod tune;

const SETS: [&str; 4] = ["--set", "run.folder=run", "--set", "data.workers=2"];

/// Object that `cloze profile --json` prints.
fn profiled(home: &Home, args: &[&str]) -> Value {
    let outcome = home.run_ok(&[profile_args(args), SETS.to_vec()].concat());
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome}"))
}

//! Tests of what a clock says of planted delays: `make test-timing`, on a machine without other load.
//!
//! They run one after another and only once. The gate checks the same commands without their times.

use serde_json::Value;
use testkit::{Home, profile_args};

mod profile;
mod profiled;
mod scaling;
mod tune;

const SETS: [&str; 4] = ["--set", "run.folder=run", "--set", "data.workers=2"];

/// Object that `cloze profile --json` prints.
fn profiled(home: &Home, args: &[&str]) -> Value {
    let outcome = home.run_ok(&[profile_args(args), SETS.to_vec()].concat());
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome}"))
}

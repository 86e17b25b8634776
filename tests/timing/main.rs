//! Tests of what a clock says of planted delays: `make test-timing`, on a machine without other load.
//!
//! They run one after another and only once. The gate checks the same commands without their times.

use serde_json::Value;
use testkit::Home;

mod profile;
mod profiled;
mod scaling;
mod tune;

const SETS: [&str; 4] = ["--set", "run.folder=run", "--set", "data.workers=2"];

/// Object that `cloze profile --json` prints.
fn profiled(home: &Home, args: &[&str]) -> Value {
    let outcome = home.run_ok(&[&["profile", "--json"], args, &SETS].concat());
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome}"))
}

//! Child processes: a test starts itself again with a folder, and does the other half of its work there.
//!
//! The child is a process of the test that waits for it, so no test of this binary passes without doing anything.

use std::path::{Path, PathBuf};
use std::process::Command;

use store::Store;

/// Set in a child: the folder that it works in.
const FOLDER: &str = "STORE_TEST_CHILD_FOLDER";

/// Store that this process works on, if it is a child.
pub(crate) fn store() -> Option<Store> {
    let folder = std::env::var_os(FOLDER).map(PathBuf::from)?;
    Some(Store::existing(folder).expect("it is there"))
}

/// Command that starts one test of this binary again, as a child.
pub(crate) fn command(test: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", test, "--nocapture"]).env(FOLDER, folder);
    command
}

//! Options of stores on a server of the tests.

use std::time::Duration;

use remote_store::StoreOptions;
use store::Retries;
use testkit::servers::s3;

/// Returns options for a server at that address. Retries have no pauses.
pub(crate) fn options(address: &str) -> StoreOptions {
    let pause = Duration::ZERO;
    let pause_max = Duration::ZERO;
    let retries = Retries { attempts_max: 20, pause, pause_max, ..Retries::default() };
    StoreOptions { retries, ..StoreOptions::new(s3::environment(address)) }
}

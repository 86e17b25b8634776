//! Servers on loopback for the tests of this package, and for those of the program (`tests/object_stores.rs`).

#![allow(dead_code, reason = "each program of tests uses a part")]
#![allow(clippy::format_push_string, reason = "short texts, where speed is of no concern")]

pub(crate) mod azure;
pub(crate) mod http;
pub(crate) mod s3;

use std::time::Duration;

use remote_store::StoreOptions;
use store::Retries;

/// Secret key of the tests. No output may contain it.
pub(crate) const SECRET: &str = "planted-secret-key";

/// Options for a server at that address. Retries have no pauses.
pub(crate) fn options(address: &str) -> StoreOptions {
    let environment = [
        ("AWS_ACCESS_KEY_ID", "planted-access-key"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_SESSION_TOKEN", "planted-session-token"),
        ("AWS_ENDPOINT_URL", &format!("http://{address}")),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_REGION", "us-east-1"),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let pause = Duration::ZERO;
    let pause_max = Duration::ZERO;
    let retries = Retries { attempts_max: 20, pause, pause_max };
    StoreOptions { retries, ..StoreOptions::new(environment) }
}

//! Storage backends over a network: S3, Google Cloud Storage, Azure Blob Storage, HTTP servers, Hugging Face datasets.
//!
//! # What
//! [`open`] turns a location of the configuration into a [`Store`]: a path, or a URL of a prefix in a bucket.
//!
//! | URL | operations |
//! |---|---|
//! | `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX`, `abfs://…` | all |
//! | `http://HOST/PREFIX`, `https://HOST/PREFIX` | get, ranges and head of files that are named |
//! | `hf://datasets/OWNER/NAME[@REVISION][/PREFIX]` | get, ranges, head and list, of one commit |
//! | `file:///FOLDER` | those of a folder |
//!
//! # Why
//! Preparation and training use only the operations of a [`Store`]. A backend that keeps its contract needs no special
//! case anywhere else.
//!
//! # Definition
//! | guarantee | bucket |
//! |---|---|
//! | an object is whole or absent | one request, or a multipart upload that its last request completes |
//! | create excludes | `If-None-Match: *`, on Google Cloud Storage generation 0 |
//! | replace excludes | `If-Match` with the `ETag`, on Google Cloud Storage the generation that has this `ETag` |
//! | a version | the `ETag`. Some servers derive it from the content, so equal bytes may have equal versions |
//!
//! Each call is one attempt; [`Retries`](store::Retries) repeats those without an answer. A request ends with an error
//! when almost nothing arrives for [`StoreOptions::stall_timeout`]. Credentials come from the environment and occur in no
//! error, log record, `Debug` output or displayed location.
//!
//! # Reference
//! Amazon S3 User Guide, "Conditional writes"; RFC 9110, section 13, for what the two headers decide.

mod answered;
mod body;
mod bucket;
mod bucket_backend;
mod client_settings;
mod connector;
mod containment;
mod failure;
mod hub;
mod hub_tree;
mod list_pages;
mod location;
mod options;
mod progress;
mod providers;
mod read_only;
mod redirect;
mod retry_after;
mod runtime;
mod upload;
mod values;
mod web;
mod web_backend;

use std::io;
use std::path::Path;
use std::sync::Arc;

use store::{Store, StoreBackend};

use self::hub::Hub;
use self::location::Location;
pub use self::options::StoreOptions;
use self::read_only::{ReadBackend as _, ReadOnly};
use self::web_backend::WebBackend;

/// Returns true if `location` is a URL, of a supported store or of another one, and not a path.
pub fn is_url(location: &str) -> bool {
    location::scheme(location).is_some()
}

/// Returns true if `location` is the URL of a web server, which has no list of files.
pub fn is_web(location: &str) -> bool {
    location::is_web(location)
}

/// Returns a location without the parts of a URL that may hold a secret, for messages.
pub fn without_secrets(location: &str) -> String {
    location::without_secrets(location)
}

/// Opens the store at `location`, with the credentials of this process's environment. Creates a folder that is missing.
pub fn open(location: &str) -> io::Result<Store> {
    open_with(location, &StoreOptions::from_env())
}

/// Opens the store at `location`. A folder must exist; a prefix of a bucket needs no object.
pub fn existing(location: &str) -> io::Result<Store> {
    match Location::parse(location)? {
        Location::Folder(path) => Store::existing(path),
        _ => open(location),
    }
}

/// Opens the store that a path of the configuration names, as [`open`] does. A path may be a URL.
pub fn open_path(path: &Path) -> io::Result<Store> {
    // A path that is no text is no URL.
    path.to_str().map_or_else(|| Store::folder(path), open)
}

/// Opens the store that a path of the configuration names, as [`existing`] does. A path may be a URL.
pub fn existing_path(path: &Path) -> io::Result<Store> {
    path.to_str().map_or_else(|| Store::existing(path), existing)
}

/// Whether a path of the configuration is a URL.
pub fn is_url_path(path: &Path) -> bool {
    path.to_str().is_some_and(is_url)
}

/// Whether a location is `folder` or lies below it, however both are spelled. Of a glob, the part before its first wildcard
/// counts.
pub fn is_within(location: &str, folder: &Path) -> bool {
    containment::is_within(location, folder)
}

/// Whether a store can be at a path of the configuration: a folder that exists, or any URL.
pub fn may_exist(path: &Path) -> bool {
    path.is_dir() || is_url_path(path)
}

/// Returns true if `location` is the URL of a store that can only be read.
pub fn is_read_only(location: &str) -> bool {
    is_web(location) || location::scheme(location).as_deref() == Some("hf")
}

/// Opens the store at `location` with these options. Creates a folder that is missing.
pub fn open_with(location: &str, options: &StoreOptions) -> io::Result<Store> {
    let retries = options.retries;
    let backend: Arc<dyn StoreBackend> = match Location::parse(location)? {
        Location::Folder(path) => return Store::folder(path),
        Location::Bucket(place) => Arc::new(providers::connect(&place, options)?),
        Location::Web(url) => Arc::new(ReadOnly::new(WebBackend::new(url, options)?)),
        Location::Hub(dataset) => {
            let hub = Hub::new(dataset, options)?;
            retries.repeat(|_| hub.pin()).map_err(|error| located(&hub.display_path(""), &error))?;
            Arc::new(ReadOnly::new(hub))
        }
    };
    Ok(Store::new(backend).with_retries(retries))
}

/// Returns the error with its location.
fn located(place: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{place}: {error}"))
}

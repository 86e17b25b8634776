//! Storage backend over a prefix of an HTTP server. It can only be read, and has no list.

use std::fmt::{self, Debug, Formatter};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::PathBuf;

use store::{Created, Entry, Replaced, Stat, StoreBackend, Upload, Version};
use url::Url;

use crate::failure::Failure;
use crate::options::StoreOptions;
use crate::read_only::refuse;
use crate::runtime;
use crate::web::Web;

/// Scheme in errors.
const SCHEME: &str = "a store at http:// or https://";

/// Storage backend over a prefix of an HTTP server.
pub(crate) struct WebBackend {
    web: Web,
    /// URL of the prefix, with its query and its user part.
    base: Url,
    display: String,
}

/// Without the URL: its query may hold credentials.
impl Debug for WebBackend {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WebBackend").field(&self.display).finish()
    }
}

impl WebBackend {
    pub(crate) fn new(base: Url, options: &StoreOptions) -> io::Result<Self> {
        let mut shown = base.clone();
        shown.set_query(None);
        shown.set_fragment(None);
        // A URL of these schemes has a host, so its user part can be changed.
        let _ = (shown.set_username(""), shown.set_password(None));
        let display = shown.as_str().trim_end_matches('/').to_owned();
        Ok(Self { web: Web::new(options, None)?, base, display })
    }

    /// Returns the URL of an object: its name joins the path, and the query stays.
    fn url(&self, name: &str) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(name.split('/'));
        }
        url
    }
}

/// Returns `None` for an absent file.
fn found<T>(outcome: Result<T, Failure>) -> io::Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(failure) if failure.error.kind() == ErrorKind::NotFound => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

impl StoreBackend for WebBackend {
    fn get(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>> {
        let (web, url) = (self.web.clone(), self.url(name));
        runtime::run(async move { found(web.get(url).await) })
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let (web, url) = (self.web.clone(), self.url(name));
        runtime::run(async move { Ok(web.get_range(url, range).await?) })
    }

    fn head(&self, name: &str) -> io::Result<Option<Stat>> {
        let (web, url) = (self.web.clone(), self.url(name));
        runtime::run(async move { found(web.head(url).await) })
    }

    fn list(&self, _folder: &str) -> io::Result<Vec<Entry>> {
        let message = "an HTTP server has no list of files; name each file by its own URL";
        Err(io::Error::new(ErrorKind::Unsupported, message))
    }

    fn begin_upload(&self, _name: &str) -> io::Result<Box<dyn Upload>> {
        refuse(SCHEME)
    }

    fn put_if_absent(&self, _name: &str, _bytes: &[u8]) -> io::Result<Created> {
        refuse(SCHEME)
    }

    fn put_if_version(&self, _name: &str, _bytes: &[u8], _expected: &Version) -> io::Result<Replaced> {
        refuse(SCHEME)
    }

    fn delete(&self, _name: &str) -> io::Result<()> {
        refuse(SCHEME)
    }

    fn sweep(&self, _folder: &str) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn display_path(&self, name: &str) -> String {
        if name.is_empty() { self.display.clone() } else { format!("{}/{name}", self.display) }
    }

    fn local(&self, _folder: &str) -> Option<PathBuf> {
        None
    }
}

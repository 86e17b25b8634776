//! Storage backend over a prefix of an HTTP server. It can only be read, and has no list.

use std::borrow::Cow;
use std::fmt::{self, Debug, Formatter};
use std::io::{self, ErrorKind};
use std::ops::Range;

use percent_encoding::percent_decode_str;
use store::{Entry, Stat};
use url::Url;

use crate::failure::Failure;
use crate::options::StoreOptions;
use crate::read_only::{KnownObject, ReadBackend};
use crate::runtime;
use crate::web::Web;

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

    /// Returns the URL of an object: its name joins the path, and the query stays. A name is a part of a URL, so it may
    /// be encoded: `a%20b` and `a b` are the same object.
    fn url(&self, name: &str) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            // Encodes each part again. A part that is no UTF-8 when decoded stays as it is.
            let decoded = |part| percent_decode_str(part).decode_utf8().unwrap_or(Cow::Borrowed(part));
            path.pop_if_empty().extend(name.split('/').map(decoded));
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

impl ReadBackend for WebBackend {
    const NAME: &'static str = "a store at http:// or https://";

    fn get(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>> {
        let (web, url) = (self.web.clone(), self.url(name));
        runtime::run(async move { found(web.get(url).await) })
    }

    fn get_range(&self, name: &str, range: Range<u64>, known: Option<KnownObject>) -> io::Result<Vec<u8>> {
        let (web, url) = (self.web.clone(), self.url(name));
        runtime::run(async move { Ok(web.get_range(url, range, known).await?) })
    }

    fn head(&self, name: &str) -> io::Result<Option<Stat>> {
        let (web, url) = (self.web.clone(), self.url(name));
        runtime::run(async move { found(web.head(url).await) })
    }

    fn list(&self, _folder: &str) -> io::Result<Vec<Entry>> {
        let message = "an HTTP server has no list of files; name each file by its own URL";
        Err(io::Error::new(ErrorKind::Unsupported, message))
    }

    fn display_path(&self, name: &str) -> String {
        if name.is_empty() { self.display.clone() } else { format!("{}/{name}", self.display) }
    }
}

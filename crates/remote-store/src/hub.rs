//! Storage backend over a dataset repository of the Hugging Face Hub. It can only be read.
//!
//! # Definition
//! The revision is resolved to a commit when the store opens; every later request names that commit. `HF_ENDPOINT` is
//! the server (default `https://huggingface.co`), `HF_TOKEN` the token. The token goes to that server only, not to the
//! storage that it redirects to.
//!
//! # Reference
//! Hugging Face, "Hub API Endpoints": `/api/datasets/{repo}/revision/{revision}`,
//! `/api/datasets/{repo}/tree/{revision}`, `/datasets/{repo}/resolve/{revision}/{path}`.

use std::fmt::{self, Debug, Formatter};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::Deserialize;
use store::{Entry, Stat};
use url::Url;

use crate::failure::Failure;
use crate::hub_tree::{Tree, read_tree};
use crate::location::{DatasetPlace, is_web_scheme};
use crate::options::StoreOptions;
use crate::read_only::{KnownObject, ReadBackend};
use crate::runtime;
use crate::web::Web;

const ENDPOINT: &str = "https://huggingface.co";

/// Storage backend over one commit of a dataset repository.
pub(crate) struct Hub {
    web: Web,
    endpoint: Url,
    place: DatasetPlace,
    has_token: bool,
    commit: OnceLock<String>,
    /// File list. It is of one commit, so it never changes, and a repeated request continues it.
    tree: Arc<Mutex<Tree>>,
}

/// Without the client: it contains the token.
impl Debug for Hub {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hub").field(&self.display_path("")).field(&self.commit.get()).finish()
    }
}

/// Answer to the request of a revision.
#[derive(Deserialize)]
struct Revision {
    sha: String,
}

impl Hub {
    pub(crate) fn new(place: DatasetPlace, options: &StoreOptions) -> io::Result<Self> {
        let endpoint = options.variable("HF_ENDPOINT").unwrap_or(ENDPOINT);
        let endpoint = Url::parse(endpoint.trim_end_matches('/')).ok();
        let endpoint = endpoint.filter(|url| is_web_scheme(url.scheme()) && url.query().is_none());
        let endpoint = endpoint.ok_or_else(|| {
            io::Error::new(ErrorKind::InvalidInput, "HF_ENDPOINT is not a URL such as https://huggingface.co")
        })?;
        let token = options.variable("HF_TOKEN");
        let web = Web::new(options, token.map(|token| (endpoint.origin(), token)))?;
        let has_token = token.is_some();
        Ok(Self { web, endpoint, place, has_token, commit: OnceLock::new(), tree: Arc::default() })
    }

    /// Resolves the revision to a commit.
    pub(crate) fn pin(&self) -> io::Result<()> {
        let url = self.url(&["api", "datasets"], &["revision", &self.place.revision], "");
        let web = self.web.clone();
        let text = runtime::run(async move { Ok(web.text(url).await.map(|(_, text)| text)) })?;
        let text = text.map_err(|failure| self.explain(failure))?;
        let Revision { sha } = serde_json::from_slice(&text).map_err(|error| {
            io::Error::new(ErrorKind::InvalidData, format!("the answer of {} is not as expected: {error}", self.host()))
        })?;
        if sha.is_empty() || !sha.chars().all(|char| char.is_ascii_hexdigit()) {
            let message = format!("the answer of {} names no commit", self.host());
            return Err(io::Error::new(ErrorKind::InvalidData, message));
        }
        let _ = self.commit.set(sha);
        Ok(())
    }

    fn host(&self) -> &str {
        self.endpoint.host_str().unwrap_or("the Hub")
    }

    fn commit(&self) -> &str {
        self.commit.get().map_or(&self.place.revision, |commit| commit)
    }

    /// Returns a URL: `start`, the repository, `middle`, and the parts of `path`.
    fn url(&self, start: &[&str], middle: &[&str], path: &str) -> Url {
        let mut url = self.endpoint.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(start).extend(self.place.repository.split('/')).extend(middle);
            parts.extend(path.split('/').filter(|part| !part.is_empty()));
        }
        url
    }

    /// Returns the path of an object in the repository.
    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.place.prefix).trim_matches('/').to_owned()
    }

    fn file_url(&self, name: &str) -> Url {
        self.url(&["datasets"], &["resolve", self.commit()], &self.path(name))
    }

    /// Returns the error with its cause in terms of the repository.
    fn explain(&self, failure: Failure) -> io::Error {
        let DatasetPlace { repository, revision, .. } = &self.place;
        let host = self.host();
        let token = if self.has_token { "use a token with access in HF_TOKEN" } else { "set HF_TOKEN" };
        let message = match failure.status {
            _ if failure.code == "RevisionNotFound" => {
                format!("dataset `{repository}` has no revision `{revision}`; choose one that {host} lists")
            }
            _ if failure.code == "GatedRepo" => format!(
                "dataset `{repository}` is gated: accept its conditions at {host}/datasets/{repository} and \
                 set HF_TOKEN to a token of that account"
            ),
            Some(401 | 403) => {
                format!("dataset `{repository}` does not exist on {host}, or is private: check the name, or {token}")
            }
            Some(404) => format!("dataset `{repository}` does not exist on {host}; check the owner and the name"),
            _ => return failure.into(),
        };
        io::Error::new(failure.error.kind(), message)
    }

    /// Returns `None` for a file that the commit does not have.
    fn found<T>(&self, outcome: Result<T, Failure>) -> io::Result<Option<T>> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(failure) if failure.error.kind() == ErrorKind::NotFound => Ok(None),
            Err(failure) => Err(self.explain(failure)),
        }
    }
}

impl ReadBackend for Hub {
    const NAME: &'static str = "a store at hf://";

    fn get(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>> {
        let (web, url) = (self.web.clone(), self.file_url(name));
        self.found(runtime::run(async move { Ok(web.get(url).await) })?)
    }

    fn get_range(&self, name: &str, range: Range<u64>, known: Option<KnownObject>) -> io::Result<Vec<u8>> {
        let (web, url) = (self.web.clone(), self.file_url(name));
        let listed = || self.tree.lock().unwrap_or_else(PoisonError::into_inner).length_of(&self.path(name));
        let known = known.or_else(|| listed().map(|bytes| KnownObject { bytes, tag: None }));
        let outcome = runtime::run(async move { Ok(web.get_range(url, range, known).await) })?;
        self.found(outcome)?.ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn head(&self, name: &str) -> io::Result<Option<Stat>> {
        let (web, url) = (self.web.clone(), self.file_url(name));
        self.found(runtime::run(async move { Ok(web.head(url).await) })?)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        let mut tree = self.tree.lock().unwrap_or_else(PoisonError::into_inner);
        let first = self.url(&["api", "datasets"], &["tree", self.commit()], &self.place.prefix);
        let (web, state) = (self.web.clone(), std::mem::take(&mut *tree));
        let (state, outcome) = runtime::run(async move { Ok(read_tree(&web, first, state).await) })?;
        *tree = state;
        match outcome {
            Ok(()) => Ok(tree.below(&self.place.prefix, folder)),
            // A prefix without files has no tree.
            Err(failure) if failure.code == "EntryNotFound" => Ok(Vec::new()),
            Err(failure) => Err(self.explain(failure)),
        }
    }

    fn display_path(&self, name: &str) -> String {
        let DatasetPlace { repository, .. } = &self.place;
        let path = self.path(name);
        format!("hf://datasets/{repository}@{}/{path}", self.commit()).trim_end_matches('/').to_owned()
    }
}

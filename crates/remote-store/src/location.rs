//! Locations of stores: paths and URLs.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use url::Url;

/// Text of an unknown scheme's error.
const SUPPORTED: &str = "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, abfs://CONTAINER/PREFIX, \
                         http://…, https://…, hf://datasets/OWNER/NAME[@REVISION][/PREFIX], file:///FOLDER, a path";

/// Parsed location.
pub(crate) enum Location {
    /// Folder of this machine.
    Folder(PathBuf),
    /// Prefix in a bucket.
    Bucket(BucketPlace),
    /// Prefix on an HTTP server, perhaps with a query that holds credentials.
    Web(Url),
    /// Dataset repository.
    Hub(DatasetPlace),
}

/// Service of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Service {
    S3,
    Google,
    Azure,
}

impl Service {
    /// Returns the beginning of the names of its environment variables.
    pub(crate) fn variables(self) -> &'static str {
        match self {
            Self::S3 => "AWS_",
            Self::Google => "GOOGLE_",
            Self::Azure => "AZURE_",
        }
    }
}

/// Prefix in a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BucketPlace {
    pub(crate) service: Service,
    pub(crate) bucket: String,
    /// Storage account that the URL names: `abfs://CONTAINER@ACCOUNT.dfs.core.windows.net`.
    pub(crate) account: Option<String>,
    /// Without `/` at its ends; may be empty.
    pub(crate) prefix: String,
    /// URL without credentials, without `/` at its end.
    pub(crate) display: String,
}

/// Prefix in a dataset repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatasetPlace {
    /// `OWNER/NAME`.
    pub(crate) repository: String,
    pub(crate) revision: String,
    /// Without `/` at its ends; may be empty.
    pub(crate) prefix: String,
}

/// Returns the scheme of a URL, in lower case; `None` for a path. A URL with white space before it is none of a path.
pub(crate) fn scheme(location: &str) -> Option<String> {
    let (scheme, _) = location.trim_start().split_once("://")?;
    let first = scheme.chars().next()?;
    let follows = |char: char| char.is_ascii_alphanumeric() || "+-.".contains(char);
    (first.is_ascii_alphabetic() && scheme.chars().all(follows)).then(|| scheme.to_ascii_lowercase())
}

/// Returns true if a URL is of a web server, which has no list of files.
pub(crate) fn is_web(location: &str) -> bool {
    scheme(location).is_some_and(|scheme| is_web_scheme(&scheme))
}

pub(crate) fn is_web_scheme(scheme: &str) -> bool {
    matches!(scheme, "http" | "https")
}

/// Returns a URL without what may hold a secret: its user part, and for a web server its query and its fragment. The
/// container of `abfs://CONTAINER@ACCOUNT` stays.
pub(crate) fn without_secrets(location: &str) -> String {
    let Some(scheme) = scheme(location) else { return location.to_owned() };
    let location = location.trim();
    let rest = &location[scheme.len() + "://".len()..];
    let authority = rest.split('/').next().unwrap_or_default();
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    let user = user.filter(|user| !scheme.starts_with("abfs") || user.contains(':'));
    let start = user.map_or(0, |user| user.len() + 1);
    let query = if is_web_scheme(&scheme) { rest.find(['?', '#']) } else { None };
    // A query before the `@` makes the user part unclear: nothing of the URL is shown.
    format!("{scheme}://{}", rest.get(start..query.unwrap_or(rest.len())).unwrap_or_default())
}

impl Location {
    /// Parses a path or a URL. Errors never repeat the user part or the query of a URL.
    pub(crate) fn parse(location: &str) -> io::Result<Self> {
        let Some(scheme) = scheme(location) else { return Ok(Self::Folder(location.into())) };
        if location.trim() != location {
            return Err(invalid(&scheme, "begins or ends with white space; remove it"));
        }
        match &*scheme {
            "s3" | "s3a" => bucket(Service::S3, "s3", location),
            "gs" | "gcs" => bucket(Service::Google, "gs", location),
            "az" | "azure" => bucket(Service::Azure, "az", location),
            "abfs" | "abfss" => bucket(Service::Azure, "abfs", location),
            web if is_web_scheme(web) => {
                let url = Url::parse(location).map_err(|error| invalid(&scheme, &format!("is not a URL: {error}")))?;
                Ok(Self::Web(url))
            }
            "hf" => dataset(location),
            "file" => {
                let path = Url::parse(location).ok().and_then(|url| url.to_file_path().ok());
                path.map(Self::Folder).ok_or_else(|| invalid("file", "is not file:///FOLDER"))
            }
            other => Err(invalid(other, &format!("is not a supported store; use {SUPPORTED}"))),
        }
    }
}

/// Returns the error of a URL, without any part of it that may hold a secret.
fn invalid(scheme: &str, problem: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, format!("{scheme}:// location {problem}"))
}

fn bucket(service: Service, scheme: &str, location: &str) -> io::Result<Location> {
    let rest = location.split_once("://").map_or("", |(_, rest)| rest);
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if rest.contains(['?', '#']) {
        return Err(invalid(scheme, "has a query; give credentials and endpoints by environment variables"));
    }
    let (name, account) = match authority.split_once('@') {
        Some((container, host)) if scheme == "abfs" && !container.contains(':') => {
            let account = host.split('.').next().filter(|account| !account.is_empty());
            (container, Some(account.ok_or_else(|| invalid(scheme, "names no account after `@`"))?))
        }
        Some(_) => return Err(invalid(scheme, "has a user part; give credentials by environment variables")),
        None => (authority, None),
    };
    let is_bucket_char = |char: char| char.is_ascii_alphanumeric() || "-._$".contains(char);
    if name.is_empty() || !name.chars().all(is_bucket_char) {
        return Err(invalid(scheme, &format!("names no valid bucket; use {scheme}://BUCKET/PREFIX")));
    }
    let prefix = prefix(scheme, path)?;
    let at = account.map(|account| format!("@{account}.dfs.core.windows.net")).unwrap_or_default();
    let display = format!("{scheme}://{name}{at}/{prefix}").trim_end_matches('/').to_owned();
    let account = account.map(str::to_owned);
    Ok(Location::Bucket(BucketPlace { service, bucket: name.to_owned(), account, prefix, display }))
}

/// Returns a prefix without `/` at its ends.
fn prefix(scheme: &str, path: &str) -> io::Result<String> {
    let path = path.trim_matches('/');
    let is_valid = |part: &str| !matches!(part, "" | "." | "..") && !part.chars().any(char::is_control);
    if path.is_empty() || path.split('/').all(is_valid) {
        return Ok(path.to_owned());
    }
    Err(invalid(scheme, "has a prefix with an empty part, `.`, `..` or a control character"))
}

fn dataset(location: &str) -> io::Result<Location> {
    let usage = || invalid("hf", "is not of the form hf://datasets/OWNER/NAME[@REVISION][/PREFIX]");
    let rest = location.split_once("://").map_or("", |(_, rest)| rest);
    let rest = rest.strip_prefix("datasets/").ok_or_else(usage)?;
    let (owner, rest) = rest.split_once('/').ok_or_else(usage)?;
    let end = rest.find(['/', '@']).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    let is_name = |name: &str| {
        let is_name_char = |char: char| char.is_ascii_alphanumeric() || "-._".contains(char);
        !matches!(name, "" | "." | "..") && name.chars().all(is_name_char)
    };
    if !is_name(owner) || !is_name(name) {
        return Err(usage());
    }
    let (revision, path) = match rest.strip_prefix('@') {
        None => ("main".to_owned(), rest),
        Some(rest) => {
            let (revision, path) = rest.split_at(revision_length(rest));
            let revision = percent_decode_str(revision).decode_utf8().map_err(|_| usage())?;
            let is_part = |part: &str| !matches!(part, "" | "." | "..") && !part.chars().any(char::is_control);
            if !revision.split('/').all(is_part) {
                return Err(usage());
            }
            (revision.into_owned(), path)
        }
    };
    let prefix = prefix("hf", path)?;
    Ok(Location::Hub(DatasetPlace { repository: format!("{owner}/{name}"), revision, prefix }))
}

/// Returns the length of the revision at the start of `rest`: up to `/`, except for `refs/convert/NAME` and
/// `refs/pr/NUMBER`.
fn revision_length(rest: &str) -> usize {
    let parts = if rest.starts_with("refs/convert/") || rest.starts_with("refs/pr/") { 3 } else { 1 };
    rest.match_indices('/').nth(parts - 1).map_or(rest.len(), |(at, _)| at)
}

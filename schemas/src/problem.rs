//! Problems of a configuration, shared by all checks.

use std::fmt;
use std::path::Path;

use crate::printable;

/// Named part of a configuration, such as `views.masked`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Component {
    /// Table of the component: `views`, `objectives`, `networks`.
    pub section: &'static str,
    /// Name within the table.
    pub name: String,
}

/// Configuration problem found while planning; all problems are reported at once.
///
/// It contains the key, not the location: the reader of the file adds the line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Key, such as `encoder.heads` or `views.neighbors.of`.
    pub key: String,
    /// Description of the problem, with the values.
    pub message: String,
    /// Suggested fix.
    pub hint: Option<String>,
    /// Components that this problem depends on. If one of them could not be read, that error is the cause and this
    /// problem is not reported.
    pub about: Vec<Component>,
}

impl Problem {
    /// Creates a problem with the value at `key`.
    #[must_use]
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into(), hint: None, about: Vec::new() }
    }

    /// Adds a suggested fix.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Adds a component that this problem depends on.
    #[must_use]
    pub fn about(mut self, section: &'static str, name: impl Into<String>) -> Self {
        self.about.push(Component { section, name: name.into() });
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.key, self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

/// Returns the reason why a path cannot be an output folder: it is a URL, which would become a local folder of that name.
#[must_use]
pub fn url_refusal(path: &Path) -> Option<String> {
    let text = path.to_str()?;
    let (scheme, _) = text.split_once(":/")?;
    let is_scheme = scheme.len() > 1 && scheme.chars().all(|it| it.is_ascii_alphanumeric() || "+-.".contains(it));
    is_scheme.then(|| format!("{}: a URL, and output goes to local folders only", printable(text)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::url_refusal;

    #[test]
    fn urls_are_distinguished_from_paths() {
        for url in ["s3://bucket/run", "hf://datasets/a", "gs:/one-slash", "https://host/a", "file:///tmp/a"] {
            assert!(url_refusal(Path::new(url)).is_some_and(|why| why.contains("a URL")), "{url}");
        }
        for path in ["runs/a", "/a:b/c", "a:b", "./s3://x", "c:/windows", "run 1:/x"] {
            assert_eq!(url_refusal(Path::new(path)), None, "{path}");
        }
    }
}

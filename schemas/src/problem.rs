//! What is wrong with a configuration, whoever finds it.

use std::fmt;

/// A named part of a configuration, such as `views.masked`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Component {
    /// The table that it stands in: `views`, `objectives`, `networks`.
    pub section: &'static str,
    /// Its name there.
    pub name: String,
}

/// Something that a configuration has to mend, found while planning; all are reported at once.
///
/// It knows the key, not the place: whoever read the file adds where that is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The key, such as `encoder.heads` or `views.neighbors.of`.
    pub key: String,
    /// What is wrong, with the values.
    pub message: String,
    /// What would satisfy it.
    pub hint: Option<String>,
    /// The components that must be what they should for this to be a problem at all: where one of them could not even be
    /// read, that is the mistake, and this only follows from it.
    pub about: Vec<Component>,
}

impl Problem {
    /// A problem with the value at `key`.
    #[must_use]
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into(), hint: None, about: Vec::new() }
    }

    /// The same with a way out.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same, and it is about that component too.
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

//! Error of an analysis.

use std::fmt;

/// Error of an analysis, by the user's remedy.
#[derive(Debug)]
pub enum Error {
    /// An option, or data that the analysis cannot use. The message names the remedy.
    Usage(String),
    /// The model failed.
    Model(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Wraps an error of the model.
    pub fn model(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Model(Box::new(error))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) => formatter.write_str(message),
            Self::Model(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for Error {}

//! Error of a file that is not a profile.

/// A profile that cannot be read, compared or shown, with the reason and the fix.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidProfile(pub(crate) String);

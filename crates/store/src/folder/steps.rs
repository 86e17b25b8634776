//! Test hook before each step of a replacement or a sweep, with the step's name.

#[cfg(test)]
use std::sync::Arc;

/// Hook for tests; empty in other builds.
#[derive(Clone, Default)]
pub(super) struct Steps {
    #[cfg(test)]
    hook: Option<Arc<dyn Fn(&'static str) + Send + Sync>>,
}

impl Steps {
    /// Announces the next step.
    #[cfg(test)]
    pub(super) fn reach(&self, name: &'static str) {
        if let Some(hook) = &self.hook {
            hook(name);
        }
    }

    /// Announces the next step.
    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "empty outside tests")]
    pub(super) fn reach(&self, _: &'static str) {}

    /// Calls `hook` before each step.
    #[cfg(test)]
    pub(super) fn with(hook: impl Fn(&'static str) + Send + Sync + 'static) -> Self {
        Self { hook: Some(Arc::new(hook)) }
    }
}

impl std::fmt::Debug for Steps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Steps")
    }
}

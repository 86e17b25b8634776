//! Where tests stop a process: before each step of a replacement or a sweep, by its name.

#[cfg(test)]
use std::sync::Arc;

/// Nothing, outside tests.
#[derive(Clone, Default)]
pub(super) struct Steps {
    #[cfg(test)]
    hook: Option<Arc<dyn Fn(&'static str) + Send + Sync>>,
}

impl Steps {
    /// The step of that name comes next.
    #[cfg(test)]
    pub(super) fn before(&self, name: &'static str) {
        if let Some(hook) = &self.hook {
            hook(name);
        }
    }

    /// The step of that name comes next.
    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "nobody stops here outside tests")]
    pub(super) fn before(&self, _: &'static str) {}

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

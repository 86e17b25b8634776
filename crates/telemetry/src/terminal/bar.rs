//! Progress bar in the last line of a terminal, and printing of lines above it.

use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Current bar. There is at most one: a preparation that runs concurrently with training prints lines instead.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Runs `write` while the bar is hidden.
pub(super) fn above<T>(write: impl FnOnce() -> T) -> T {
    let bar = BAR.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Draws a bar of `length` until [`end`] removes it.
pub(super) fn begin(length: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    *BAR.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
    bar
}

pub(super) fn end(bar: &ProgressBar) {
    *BAR.lock().unwrap_or_else(PoisonError::into_inner) = None;
    bar.finish_and_clear();
}

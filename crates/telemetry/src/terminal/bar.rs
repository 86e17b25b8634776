//! The one bar at the foot of a terminal, and how lines come to stand above it.

use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What is drawn now. A preparation next to a training has lines, not a bar: there is one at a time.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Writes something for people with the bar out of its way.
pub(super) fn above<T>(write: impl FnOnce() -> T) -> T {
    let bar = BAR.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Draws a bar of that length from now on, until it is [`ended`](end).
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

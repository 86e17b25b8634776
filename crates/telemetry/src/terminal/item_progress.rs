//! Progress over items: a bar on a terminal, otherwise nothing, because each item prints its own line.

use indicatif::ProgressBar;

use super::bar;
use super::output_mode::OutputMode;

/// Progress display of work on several items.
#[derive(Debug)]
pub struct ItemProgress(Option<ProgressBar>);

impl ItemProgress {
    /// Creates a progress display.
    pub fn new(name: &'static str, items: u64) -> Self {
        Self(OutputMode::get().draws().then(|| {
            let bar = bar::begin(items, "{prefix} {bar:30} {pos}/{len}  {msg}");
            bar.set_prefix(name);
            bar
        }))
    }

    /// Sets the number of completed items, and the text about those in progress.
    pub fn set(&self, done: u64, message: &str) {
        if let Some(bar) = &self.0 {
            bar.set_position(done);
            bar.set_message(message.to_owned());
        }
    }
}

/// Removes the bar.
impl Drop for ItemProgress {
    fn drop(&mut self) {
        self.0.iter().for_each(bar::end);
    }
}

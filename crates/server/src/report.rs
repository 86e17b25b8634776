//! Runs in a file: the page with what it shows in it, and each of its figures as a plot.

use std::collections::BTreeMap;

use report::line_chart::{self, Curve};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use store::Store;

use crate::history::History;
use crate::page;
use crate::run_state::{About, of_folder, page_history};

/// What a report shows.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    runs: Vec<Box<RawValue>>,
    config: serde_json::Map<String, Value>,
    made: Made,
    /// By figure, the curves of all runs.
    #[serde(skip)]
    curves: BTreeMap<String, Vec<Curve>>,
}

/// Who made it, and when: milliseconds since the epoch of Unix.
#[derive(Debug, Default, Serialize)]
struct Made {
    program: &'static str,
    time: u64,
}

impl Report {
    /// An empty one, of that program and that time in milliseconds since the epoch of Unix.
    #[must_use]
    pub fn new(program: &'static str, time: u64) -> Self {
        Self { made: Made { program, time }, ..Self::default() }
    }

    /// One more run: what its log says, and its configuration as [`Backend::config`](crate::Backend::config) has it.
    pub fn add(&mut self, about: &About, run: &Store, config: Value) {
        let history = of_folder(run);
        self.runs.push(RawValue::from_string(ended(about, &history)).expect("it was written as JSON"));
        self.config.insert(about.name.clone(), config);
        for (figure, curve) in history.curves() {
            self.curves.entry(figure).or_default().push(Curve { name: about.name.clone(), ..curve });
        }
    }

    /// As one file of HTML that needs nothing else.
    #[must_use]
    pub fn html(&self) -> String {
        page::of_report(&serde_json::to_string(self).expect("string keys"))
    }

    /// Each figure with its plot, in SVG.
    pub fn plots(&self) -> impl Iterator<Item = (&str, String)> {
        self.curves.iter().map(|(figure, curves)| (figure.as_str(), line_chart::svg(figure, curves)))
    }
}

/// What a run has said, in the JSON that the page reads, from its folder.
#[must_use]
pub fn history_of(about: &About, run: &Store) -> String {
    ended(about, &of_folder(run))
}

/// A history to which nothing is added.
fn ended(about: &About, history: &History) -> String {
    page_history(about, "", 0, history)
}

//! Report about runs: an HTML file with the page and its data, and one plot per metric.

use std::collections::BTreeMap;

use report::line_chart::{self, Curve};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use store::Store;

use crate::history::History;
use crate::page;
use crate::run_state::{RunInfo, of_folder, page_history};

/// Report about one or more runs.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    runs: Vec<Box<RawValue>>,
    config: serde_json::Map<String, Value>,
    made: ReportOrigin,
    /// Curves of all runs, by metric.
    #[serde(skip)]
    curves: BTreeMap<String, Vec<Curve>>,
}

/// Program that wrote the report, and time in milliseconds since the Unix epoch.
#[derive(Debug, Default, Serialize)]
struct ReportOrigin {
    program: &'static str,
    time: u64,
}

impl Report {
    /// Creates an empty report. `time` is in milliseconds since the Unix epoch.
    #[must_use]
    pub fn new(program: &'static str, time: u64) -> Self {
        Self { made: ReportOrigin { program, time }, ..Self::default() }
    }

    /// Adds a run from its event log. `config` has the format of [`Backend::config`](crate::Backend::config).
    pub fn add(&mut self, about: &RunInfo, run: &Store, config: Value) {
        let history = of_folder(run);
        self.runs.push(RawValue::from_string(closed_history(about, &history)).expect("valid JSON"));
        self.config.insert(about.name.clone(), config);
        for (metric, curve) in history.curves() {
            self.curves.entry(metric).or_default().push(Curve { name: about.name.clone(), ..curve });
        }
    }

    /// Returns the report as a self-contained HTML file.
    #[must_use]
    pub fn html(&self) -> String {
        page::of_report(&serde_json::to_string(self).expect("string keys"))
    }

    /// Returns each metric with its plot in SVG.
    pub fn plots(&self) -> impl Iterator<Item = (&str, String)> {
        self.curves.iter().map(|(metric, curves)| (metric.as_str(), line_chart::svg(metric, curves)))
    }
}

/// Reads the history of a run from its folder, in the JSON format of the page.
#[must_use]
pub fn history_of(about: &RunInfo, run: &Store) -> String {
    closed_history(about, &of_folder(run))
}

/// Serializes a history that receives no further events.
fn closed_history(about: &RunInfo, history: &History) -> String {
    page_history(about, "", 0, history)
}

//! `[sources.NAME]`: which prepared folders a run mixes.

use pipeline::load::RowOrder;
use pipeline::mixture::SourceConfig;
use schemas::Problem;

use super::Config;

/// Longest name of a source: it is a file's name in the folder of a run.
const NAME_MAX: usize = 64;

impl Config {
    /// The sources that a run reads, by name: those that have a weight at all. Nothing where there is one folder.
    pub(crate) fn sources_read(&self) -> Vec<(&str, &SourceConfig)> {
        let sources = self.sources.iter().filter(|(_, source)| !source.weight.is_never());
        sources.map(|(name, source)| (name.as_str(), source)).collect()
    }

    /// What is wrong with the sources before any folder is opened.
    pub(crate) fn source_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if !self.sources.is_empty() && self.sources_read().is_empty() {
            let hint = "give at least one a `weight` above 0";
            problems.push(Problem::new("sources", "no source has a share").hint(hint));
        }
        if !self.sources.is_empty() && self.data.order == RowOrder::Streamed {
            let message = "a mixture cannot be streamed: its sources are all read from the first row on";
            let hint = "prepare the sources and set `data.order = \"shuffled\"`, or leave out `[sources]`";
            problems.push(Problem::new("data.order", message).hint(hint));
        }
        for (name, source) in &self.sources {
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
            if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_plain) {
                let message = format!("`{}` is no name of a source", name.escape_debug());
                let hint = format!("take letters, digits, `-` and `_`, at most {NAME_MAX}");
                problems.push(Problem::new(format!("sources.{name}"), message).hint(hint));
            }
            if source.folder.as_os_str().is_empty() {
                let hint = format!("add `folder = …`, which `cloze prepare` has made, to `[sources.{name}]`");
                problems.push(Problem::new(format!("sources.{name}.folder"), "it names no folder").hint(hint));
            }
        }
        problems
    }
}

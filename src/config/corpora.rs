//! Corpora that a configuration names: that of `[prepare]`, and those of sources with their own inputs.

use pipeline::load::RowOrder;
use pipeline::prepare::PrepareConfig;
use schemas::Problem;
use telemetry::otlp;

use super::key_path::is_within;
use super::sources::SourceConfig;
use super::{Config, Mistakes, Parsed, corpus};

/// Maximum length of a source name. The name is part of file names in the run folder.
const NAME_MAX: usize = 64;

/// A corpus that can be prepared.
#[derive(Clone, Debug)]
pub struct NamedCorpus {
    /// Name of its source; `None` for the corpus of `[prepare]`.
    pub(crate) source: Option<String>,
    /// Configuration of its preparation.
    pub prepare: PrepareConfig,
    /// Keys of `[prepare]` that the source replaces.
    own_keys: Vec<&'static str>,
}

impl NamedCorpus {
    /// Replaces the key of a problem by the key of the source that the user wrote.
    fn named(&self, mut problem: Problem) -> Problem {
        let Some(source) = &self.source else { return problem };
        let key =
            problem.key.strip_prefix("prepare.").filter(|key| self.own_keys.iter().any(|own| is_within(key, own)));
        if let Some(key) = key {
            problem.key = format!("sources.{source}.{key}");
        }
        problem
    }

    /// Replaces the keys in an error of the preparation by those of the source that the user wrote.
    pub(crate) fn with_own_keys(&self, error: pipeline::Error) -> pipeline::Error {
        use pipeline::Error;
        let Some(source) = &self.source else { return error };
        let renamed = |message: String| {
            self.own_keys.iter().fold(message, |message, key| {
                ["`", "["].into_iter().fold(message, |message, mark| {
                    message.replace(&format!("{mark}prepare.{key}"), &format!("{mark}sources.{source}.{key}"))
                })
            })
        };
        match error {
            Error::Config(message) => Error::Config(renamed(message)),
            Error::Corpus { path, line, message } => Error::Corpus { path, line, message: renamed(message) },
            Error::UnusableFile { path, line, message } => {
                Error::UnusableFile { path, line, message: renamed(message) }
            }
            Error::UnusableCorpus(message) => Error::UnusableCorpus(renamed(message)),
            other => other,
        }
    }
}

impl Config {
    /// Returns the sources that a run reads, by name: those with a weight above 0. Empty if there is one folder.
    pub(crate) fn sources_read(&self) -> Vec<(&str, &SourceConfig)> {
        let sources = self.sources.iter().filter(|(_, source)| !source.weight.is_never());
        sources.map(|(name, source)| (name.as_str(), source)).collect()
    }

    /// Returns the problems of sources that can be found before a folder is opened.
    pub(crate) fn source_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if !self.sources.is_empty() && self.sources_read().is_empty() {
            let hint = "set a `weight` above 0 for at least one source";
            problems.push(Problem::new("sources", "no source has a share").hint(hint));
        }
        if !self.sources.is_empty() && self.data.order == RowOrder::Streamed {
            let message = "a mixture cannot be streamed: all of its sources are read from the first row on";
            let hint = "prepare the sources and set `data.order = \"shuffled\"`, or leave out `[sources]`";
            problems.push(Problem::new("data.order", message).hint(hint));
        }
        for (name, source) in &self.sources {
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
            if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_plain) {
                let message = format!("`{}` is not a valid source name", name.escape_debug());
                let hint = format!("use at most {NAME_MAX} letters, digits, `-` and `_`");
                problems.push(Problem::new(format!("sources.{name}"), message).hint(hint));
            }
            if source.folder.as_os_str().is_empty() {
                let hint = format!("add `folder = …`, a folder written by `cloze prepare`, to `[sources.{name}]`");
                problems.push(Problem::new(format!("sources.{name}.folder"), "the source has no folder").hint(hint));
            }
        }
        problems
    }

    /// Returns the corpora for `cloze prepare`: that of `[prepare]` if it has inputs, and that of each source with
    /// inputs.
    pub(crate) fn corpora(&self) -> Vec<NamedCorpus> {
        let of_sources = self.sources.iter().filter(|(_, source)| !source.inputs.is_empty());
        let named = |(name, source): (&String, &SourceConfig)| NamedCorpus {
            source: Some(name.clone()),
            own_keys: source.own_keys(),
            prepare: source.prepare(&self.prepare),
        };
        let of_sources: Vec<NamedCorpus> = of_sources.map(named).collect();
        let is_named = of_sources.is_empty() || !self.prepare.inputs.is_empty();
        let alone = || NamedCorpus { source: None, prepare: self.prepare.clone(), own_keys: Vec::new() };
        is_named.then(alone).into_iter().chain(of_sources).collect()
    }

    /// Returns the problems of the settings of all corpora, which can be found before a file is read.
    pub(crate) fn corpus_problems(&self) -> Vec<Problem> {
        let of_sources = self.corpora().into_iter().filter(|corpus| corpus.source.is_some()).flat_map(|corpus| {
            let found = corpus.prepare.problems().into_iter().map(|problem| corpus.named(problem));
            found.filter(|problem| problem.key.starts_with("sources.")).collect::<Vec<_>>()
        });
        self.prepare.problems().into_iter().chain(of_sources).collect()
    }

    /// Returns the corpus of a source. If the source is prepared elsewhere, or there are no sources, that of
    /// `[prepare]`.
    pub fn corpus_of(&self, source: Option<&str>) -> PrepareConfig {
        let of_source = self.corpora().into_iter().find(|corpus| corpus.source.as_deref() == source);
        of_source.map_or_else(|| self.prepare.clone(), |corpus| corpus.prepare)
    }
}

/// Configuration of the training of a tokenizer, and the corpora that it reads.
pub(crate) struct TokenizerCorpora {
    pub(crate) config: Config,
    pub(crate) corpora: Vec<PrepareConfig>,
}

/// Returns the problems of inputs that are mistakes of the configuration. If a preparation is planned with them, it opens
/// them, if it needs them, and its error says that another try may help. An unknown format is then that of the plan.
fn input_problems(prepare: &mut PrepareConfig, has_known_format: bool) -> Vec<Problem> {
    let mut found = corpus::input_problems(prepare);
    if found.is_empty() && has_known_format {
        return found;
    }
    match prepare.planned_format() {
        Ok(None) => {}
        Ok(Some(format)) => {
            if !has_known_format {
                prepare.format = format;
            }
            // With a hint, there are files of another format.
            found.retain(|problem| problem.hint.is_some());
        }
        // The preparation reports a folder that cannot be read.
        Err(_) => found.clear(),
    }
    found
}

impl Parsed {
    /// If `[prepare]` has no inputs, sets them to those of all sources.
    pub(super) fn read_sources_together(&mut self) {
        let corpora = self.config.corpora();
        let of_sources = || corpora.iter().filter(|corpus| corpus.source.is_some()).map(|corpus| &corpus.prepare);
        let Some(first) = of_sources().next().filter(|_| self.config.prepare.inputs.is_empty()) else { return };
        let differ = |value: fn(&PrepareConfig) -> &str| {
            let other = of_sources().map(value).find(|other| *other != value(first))?;
            Some(format!("`{}`, `{}`", schemas::printable(value(first)), schemas::printable(other)))
        };
        let several =
            [("formats", differ(|corpus| corpus.format.kind())), ("text fields", differ(|corpus| &corpus.text_field))];
        if let Some((what, names)) = several.into_iter().find_map(|(what, names)| Some((what, names?))) {
            let message = format!("no corpus is named, and those of the sources are of several {what} ({names})");
            let hint = "name in `prepare.inputs` the files to read";
            self.report(vec![Problem::new("prepare.inputs", message).hint(hint)]);
            return;
        }
        let PrepareConfig { format, text_field, id_field, .. } = first.clone();
        // Ids are not needed here.
        let id_field = id_field.filter(|_| of_sources().all(|other| other.id_field == first.id_field));
        let inputs = of_sources().flat_map(|corpus| corpus.inputs.clone()).collect();
        self.config.prepare = PrepareConfig { inputs, format, text_field, id_field, ..self.config.prepare.clone() };
    }

    /// Returns the corpora for the training of a tokenizer: that of `[prepare]`, or those of all sources, which may have
    /// several formats.
    pub(crate) fn into_tokenizer_corpora(mut self) -> Result<TokenizerCorpora, Mistakes> {
        let named: Vec<NamedCorpus> = self.config.corpora();
        if !self.config.prepare.inputs.is_empty() || named.iter().all(|corpus| corpus.source.is_none()) {
            let config = self.into_corpus()?;
            let corpora = vec![config.prepare.clone()];
            return Ok(TokenizerCorpora { config, corpora });
        }
        self.report(self.config.corpus_problems());
        for corpus in &named {
            let problems = corpus::input_problems(&corpus.prepare);
            self.report(problems.into_iter().map(|problem| corpus.named(problem)).collect());
        }
        let corpora = named.into_iter().map(|corpus| corpus.prepare).collect();
        Ok(TokenizerCorpora { config: self.into_config()?, corpora })
    }

    /// Returns the corpora to prepare, or only that of the source `only`. Fails with all mistakes that can be found
    /// before a corpus is read.
    pub fn into_corpora(mut self, only: Option<&str>) -> Result<Vec<NamedCorpus>, Mistakes> {
        let mut corpora = self.config.corpora();
        if let Some(only) = only {
            corpora.retain(|corpus| corpus.source.as_deref() == Some(only));
            if corpora.is_empty() {
                let problem = Problem::new(format!("sources.{only}.inputs"), "the source has no corpus");
                self.report(vec![problem.hint("name files, folders or globs, or another source")]);
            }
        }
        self.report(self.config.source_problems());
        self.report(self.config.serve.problems());
        self.report(self.config.alerts.problems());
        self.report(otlp::problem(self.config.run.otlp).into_iter().collect());
        for corpus in &mut corpora {
            let has_known_format = self.has_known_format(corpus);
            let of_inputs = input_problems(&mut corpus.prepare, has_known_format);
            let prepare = &corpus.prepare;
            let missing = prepare.missing().into_iter().filter(|missing| match (&corpus.source, &*missing.key) {
                // Reported with the key of the source.
                (Some(_), "prepare.folder") => false,
                // A source that could not be parsed may have inputs.
                (None, "prepare.inputs") => !self.broken.iter().any(|key| is_within(key, "sources")),
                _ => true,
            });
            let found = missing.chain(prepare.problems()).chain(of_inputs).chain(corpus::folder_problems(prepare));
            let found = found.chain(corpus::tokenizer_problem(prepare)).map(|problem| corpus.named(problem));
            self.report(found.collect());
        }
        self.into_config().map(|_| corpora)
    }

    /// Whether the format of a corpus is written, or an extension tells it.
    fn has_known_format(&self, corpus: &NamedCorpus) -> bool {
        match corpus.source.as_ref().and_then(|name| self.config.sources.get(name)) {
            Some(source) => source.format.is_some() || self.source.says("prepare.format"),
            None => self.has_known_format,
        }
    }
}

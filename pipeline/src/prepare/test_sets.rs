//! Index of the test sets of `[prepare.decontamination]`, made when a preparation is planned.

use duplicates::{Normalizer, RunIndex, RunIndexBuilder};
use schemas::PartId;
use schemas::manifest::{ContaminationCounts, TestSetCounts};
use tasks::task::SetPurpose;
use tasks::{AnyTask, ExampleReader};
use telemetry::training::Warning;
use tracing::info;

use super::config::PrepareConfig;
use super::removal_config::{DecontaminationConfig, TestSetConfig, TestSplit};
use crate::corpus::{
    BytesRead, Corpus, CorpusConfig, DocumentPlace, FileExtensions, Found, InputFile, InvalidFilePolicy, Part,
    RejectReason,
};
use crate::{Error, Result};

/// Runs of words of all test sets.
#[derive(Debug)]
pub(super) struct TestSets {
    pub(super) index: RunIndex,
    names: Vec<String>,
    /// Counts of each test set that has texts with fewer words than a run, by its name.
    short: Vec<(String, TestTextCounts)>,
}

/// Texts of a test set.
#[derive(Clone, Copy, Debug, Default)]
struct TestTextCounts {
    texts: u64,
    /// Texts with fewer words than a run.
    short: u64,
}

impl TestSets {
    /// Reads the test sets of a configuration. Returns `None` without the section.
    pub(super) fn read(config: &PrepareConfig) -> Result<Option<Self>> {
        let Some(DecontaminationConfig { run_words, test_sets }) = &config.decontamination else { return Ok(None) };
        let mut builder = RunIndexBuilder::new(*run_words as usize);
        let mut normalizer = Normalizer::default();
        let mut all_short = Vec::new();
        for (set, test_set) in test_sets.iter().enumerate() {
            let counts = TestTextCounts::default();
            let mut texts = TestTexts { builder: &mut builder, normalizer: &mut normalizer, set, counts };
            let read = match &test_set.task {
                Some(task) => read_task(task, test_set, &mut texts),
                None => read_files(config, test_set, &mut texts),
            };
            read.map_err(|error| with_keys_of_set(error, set))?;
            let name = test_set.name();
            let counts = texts.counts;
            let TestTextCounts { texts, short } = counts;
            info!(test_set = name, texts, short, "prepare: test set read; texts below `run_words` have no run");
            if short > 0 {
                all_short.push((name.to_owned(), counts));
            }
        }
        let names = test_sets.iter().map(|set| set.name().to_owned()).collect();
        Ok(Some(Self { index: builder.build(), names, short: all_short }))
    }

    /// Returns the counts of documents that share no run.
    pub(super) fn counts(&self) -> ContaminationCounts {
        let test_sets = self.names.iter().map(|name| (name.clone(), TestSetCounts::default()));
        ContaminationCounts { test_sets: test_sets.collect(), ..ContaminationCounts::default() }
    }

    /// Returns a warning if texts of a test set are too short to be found.
    pub(super) fn warning(&self, run_words: u32) -> Option<Warning> {
        if self.short.is_empty() {
            return None;
        }
        let sets = self.short.iter().map(|(name, count)| format!("{} of {} of `{name}`", count.short, count.texts));
        let sets = sets.collect::<Vec<_>>().join(", ");
        Some(Warning {
            topic: "short_test_texts".into(),
            message: format!("texts of test sets with fewer than {run_words} words are not found in documents: {sets}"),
            hint: Some("lower `prepare.decontamination.run_words` to find them".into()),
        })
    }

    /// Returns the names of the test sets in a set of bits.
    pub(super) fn names(&self, sets: u64) -> impl Iterator<Item = &str> {
        self.names.iter().enumerate().filter(move |(set, _)| sets >> set & 1 == 1).map(|(_, name)| name.as_str())
    }
}

/// Texts of a test set, on their way to the index.
struct TestTexts<'a> {
    builder: &'a mut RunIndexBuilder,
    normalizer: &'a mut Normalizer,
    set: usize,
    counts: TestTextCounts,
}

impl TestTexts<'_> {
    fn add(&mut self, text: &str) {
        self.counts.texts += 1;
        self.counts.short += u64::from(self.builder.add(self.set, self.normalizer.normalize(text)) == 0);
    }
}

fn read_task(name: &str, config: &TestSetConfig, texts: &mut TestTexts<'_>) -> Result<()> {
    let task = AnyTask::of_kind(name).expect("checked with the configuration");
    let folder = config.data.as_ref().expect("checked with the configuration");
    let splits = config.splits.as_deref().unwrap_or(&[TestSplit::Dev, TestSplit::Test]);
    let is_read = |purpose: SetPurpose| {
        splits.contains(&match purpose {
            SetPurpose::Train => TestSplit::Train,
            SetPurpose::Dev => TestSplit::Dev,
            SetPurpose::Test => TestSplit::Test,
        })
    };
    let key = key_of(texts.set);
    let mut files = 0;
    for set in task.sets().into_iter().filter(|set| is_read(set.purpose)) {
        let file = folder.join(&set.file);
        if !file.exists() {
            continue;
        }
        files += 1;
        let refused = |error: tasks::RowError| Error::Config(format!("`{key}`: {error}"));
        // Consecutive questions share their passage.
        let mut passage = None;
        for example in ExampleReader::open(&file, &set.layout, &task.output()).map_err(refused)? {
            let example = example.map_err(refused)?;
            texts.add(&example.first);
            if example.second != passage {
                example.second.iter().for_each(|text| texts.add(text));
                passage = example.second;
            }
        }
    }
    if files == 0 {
        let folder = folder.display();
        return Err(Error::Config(format!(
            "`{key}`: {folder} has no file of the task `{name}` with these splits; check `data` and `splits`"
        )));
    }
    Ok(())
}

/// Returns the key of a test set.
fn key_of(set: usize) -> String {
    format!("prepare.decontamination.test_sets[{set}]")
}

/// Replaces the keys of the corpus in an error about the files of a test set by those of the test set.
fn with_keys_of_set(error: Error, set: usize) -> Error {
    const KEYS: [(&str, &str); 3] = [("text_field", "text_fields"), ("format", "format"), ("inputs", "files")];
    let renamed = |message: String| {
        KEYS.into_iter().fold(message, |message, (of_corpus, of_set)| {
            message.replace(&format!("`prepare.{of_corpus}"), &format!("`{}.{of_set}", key_of(set)))
        })
    };
    match error {
        Error::Config(message) => Error::Config(renamed(message)),
        Error::Corpus { path, line, message } => Error::Corpus { path, line, message: renamed(message) },
        Error::UnusableFile { path, line, message } => Error::UnusableFile { path, line, message: renamed(message) },
        other => other,
    }
}

/// Refuses a record without text that can be read: the texts behind it would not be found in the corpus. With several
/// fields, a record may lack some of them.
fn refuse_skipped(file: &InputFile, found: &Found, has_fields: bool) -> Result<()> {
    let is_skipped = |reason: RejectReason| match reason {
        RejectReason::MissingField => !has_fields,
        RejectReason::InvalidUtf8 | RejectReason::Nul | RejectReason::EmptyDocument => false,
        RejectReason::BrokenJson
        | RejectReason::BrokenRecord
        | RejectReason::UnsupportedType
        | RejectReason::NonStringField
        | RejectReason::TooLong
        | RejectReason::UnfinishedStream => true,
    };
    let Some(complaint) = found.complaints.iter().find(|complaint| is_skipped(complaint.reason)) else { return Ok(()) };
    let message = format!(
        "{}: no text of a test set may be skipped; mend the file, or take it out of `prepare.decontamination`",
        complaint.reason
    );
    Err(Error::UnusableFile { path: file.path.clone(), line: Some(complaint.line + 1), message })
}

fn read_files(config: &PrepareConfig, test_set: &TestSetConfig, texts: &mut TestTexts<'_>) -> Result<()> {
    let detected = || FileExtensions::detect(&test_set.files).format();
    let format = test_set.format.clone().or_else(detected).unwrap_or_default();
    let usual = vec!["text".to_owned()];
    let fields = test_set.text_fields.as_ref().filter(|_| format.has_fields()).unwrap_or(&usual);
    for field in fields {
        let mut reading = config.corpus().reading;
        (reading.text_field, reading.id_field, reading.encoding) = (field.clone(), None, None);
        reading.bytes_read = BytesRead::default();
        // A test text is never skipped: one that is too long is an error.
        reading.skip_above_bytes = None;
        let inputs = test_set.files.clone();
        let corpus = Corpus::open(&CorpusConfig {
            inputs,
            format: format.clone(),
            reading,
            on_invalid_file: InvalidFilePolicy::Error,
        })?;
        for file in corpus.sort_out(corpus.files().iter())?.fit {
            let pieces = corpus.pieces(file, u64::MAX)?.into_iter().map(|(piece, _)| piece).collect();
            let part = Part { id: PartId(0), bytes: file.bytes, pieces };
            let mut documents = corpus.documents(&part, DocumentPlace::default(), &BytesRead::default())?;
            while let Some(found) = documents.next() {
                let found = found?;
                refuse_skipped(file, &found, fields.len() > 1)?;
                found.document.iter().for_each(|document| texts.add(&document.text));
                documents.take_back(found);
            }
        }
    }
    Ok(())
}

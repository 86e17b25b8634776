//! Task of a prepared folder: `task.json`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pipeline::tokenize::{HfTokenizer, Tokenizer as _};
use pipeline::views::AnyView;
use schemas::Sealed;
use serde::{Deserialize, Serialize};
use store::Store;
use tasks::layout::FileLayout;
use tasks::task::{ExampleSet, SetPurpose};
use tasks::{AnyTask, Example, TaskOutput};

use super::few_shot::{FewShot, FewShotSplit};
use super::prompt::{PromptEncoder, PromptOptions};
use super::read::examples;
use super::request::{DrawnExamples, SplitRows};
use super::rows::RowOptions;
use super::subset::TrainSubset;
use crate::exit::Usage;

/// Name of the record in a prepared folder.
pub(crate) const NAME: &str = "task.json";

/// Task that a prepared folder has examples of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskRecord {
    /// Task and its keys.
    pub task: AnyTask,
    /// Absolute folder of its files.
    pub folder: PathBuf,
    /// Files that exist, in the order of the task's sets.
    pub files: Vec<TaskFile>,
    /// Fingerprint of the tokenizer.
    pub tokenizer: String,
    /// Form of the rows.
    pub rows: RowOptions,
    /// Part of the training set that was prepared; `None`: the whole set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) subset: Option<TrainSubset>,
    /// Examples of each class that were prepared; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) few_shot: Option<FewShot>,
    /// Prompt of the rows; `None`: the texts alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) prompt: Option<PromptOptions>,
}

/// File of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskFile {
    /// Name of its set.
    pub set: String,
    /// BLAKE3 of its content.
    pub blake3: String,
}

impl TaskFile {
    /// Hashes the files of sets.
    pub(super) fn all(folder: &Path, sets: &[ExampleSet]) -> std::io::Result<Vec<Self>> {
        let file = |set: &ExampleSet| Ok(Self { set: set.name.clone(), blake3: hash(&folder.join(&set.file))? });
        sets.iter().map(file).collect()
    }
}

impl Sealed for TaskRecord {
    const FORMAT: &'static str = "cloze task";
    const VERSION: u32 = 1;
    const PRETTY: bool = true;
}

impl TaskRecord {
    /// Describes the files of a task.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(super) fn new(
        task: &AnyTask,
        folder: &Path,
        sets: &[ExampleSet],
        tokenizer: &HfTokenizer,
        rows: RowOptions,
        drawn: DrawnExamples,
        prompt: Option<PromptOptions>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            task: task.clone(),
            folder: std::path::absolute(folder)?,
            files: TaskFile::all(folder, sets)?,
            tokenizer: tokenizer.facts().manifest.fingerprint.clone(),
            rows,
            subset: drawn.subset,
            few_shot: drawn.few_shot,
            prompt,
        })
    }

    /// Reads the record of a prepared folder.
    ///
    /// # Errors
    /// If the folder has none, or a damaged one.
    pub fn read(store: &Store) -> anyhow::Result<Self> {
        let message = || format!("{}: no `{NAME}` is here; name a run that `cloze finetune` made", store.place(""));
        Self::find(store)?.ok_or_else(|| Usage(message()).into())
    }

    /// Reads the record of a prepared folder; `None` if the folder has none.
    ///
    /// # Errors
    /// If the record is damaged.
    pub fn find(store: &Store) -> anyhow::Result<Option<Self>> {
        let Some((bytes, _)) = store.get_with_stat(NAME)? else { return Ok(None) };
        let record = Self::unseal(&bytes).map_err(|error| Usage(format!("{}: {error}", store.place(NAME))))?;
        Ok(Some(record))
    }

    /// Whether its examples have two texts.
    #[must_use]
    pub fn has_pairs(&self) -> bool {
        let has_second = |set: ExampleSet| match set.layout {
            FileLayout::Table(table) => table.columns.second.is_some(),
            FileLayout::SquadJson => true,
            FileLayout::WordFile(_) => false,
        };
        self.prompt.is_none() && self.task.sets().into_iter().any(has_second)
    }

    /// Returns the rows of a folder that was prepared with the same record; `None` if it must be written.
    ///
    /// # Errors
    /// If the folder was prepared with another record.
    pub(super) fn compare(&self, store: &Store) -> anyhow::Result<Option<SplitRows>> {
        let Some(found) = Self::find(store)? else { return Ok(None) };
        if found != *self {
            let message = format!(
                "{}: prepared with other files, another task, tokenizer, row length, stride, training subset, shots or \
                 prompt; name another --out",
                store.place("")
            );
            return Err(Usage(message).into());
        }
        SplitRows::of_folder(store)
    }

    /// Writes the record.
    pub(super) fn write(&self, store: &Store) -> std::io::Result<()> {
        store.put(NAME, &self.seal()).map(drop)
    }

    /// Describes the part of the training set that was prepared; `None` for the whole set.
    #[must_use]
    pub fn part(&self) -> Option<String> {
        let share = self.subset.map(|it| format!("{} of the training set, drawn by seed {}", it.fraction, it.seed));
        let shots = self.few_shot.map(|it| format!("{} of each class, drawn by seed {}", it.shots, it.seed));
        share.or(shots)
    }

    /// Returns the sets whose files exist.
    ///
    /// # Errors
    /// If a file has changed since the preparation.
    pub fn sets(&self) -> anyhow::Result<Vec<ExampleSet>> {
        let mut found = Vec::new();
        for file in &self.files {
            let Some(set) = self.task.sets().into_iter().find(|set| set.name == file.set) else { continue };
            let path = self.folder.join(&set.file);
            let blake3 = hash(&path).map_err(|error| Usage(format!("{}: {error}", path.display())))?;
            if blake3 != file.blake3 {
                let message = "it has changed since the examples were prepared; restore it, or fine-tune again";
                return Err(Usage(format!("{}: {message}", path.display())).into());
            }
            found.push(set);
        }
        Ok(found)
    }

    /// Returns the examples of a fine-tuning on few examples, as they were drawn; `None` for other fine-tunings.
    ///
    /// # Errors
    /// If the training set cannot be read, or if a file has changed since the preparation.
    pub fn few_shot_split(&self) -> anyhow::Result<Option<FewShotSplit>> {
        let Some(few_shot) = self.few_shot else { return Ok(None) };
        let sets = self.sets()?;
        let train = sets.iter().find(|set| set.purpose == SetPurpose::Train).context("a task has a training set")?;
        Ok(Some(few_shot.split(examples(train, &self.folder, &self.task)?, &self.task.output())?))
    }

    /// Returns the encoder of its prompts, with demonstrations of the examples `train`; `None` without a prompt.
    ///
    /// # Errors
    /// If the prompt does not fit the tokenizer or the rows.
    pub fn prompt_encoder(&self, tokenizer: &HfTokenizer, train: &[Example]) -> anyhow::Result<Option<PromptEncoder>> {
        let Some(prompt) = &self.prompt else { return Ok(None) };
        let seed = self.few_shot.map_or(0, |few_shot| few_shot.seed);
        PromptEncoder::new(prompt, tokenizer, self.rows.max_seq_len, train, seed).map(Some)
    }

    /// Returns the view of its examples.
    #[must_use]
    pub fn view(&self) -> AnyView {
        toml::from_str(&self.view_toml()).expect("a view")
    }

    /// Returns the keys of the view of its examples.
    pub(super) fn view_toml(&self) -> String {
        view_toml(&self.task.output(), self.rows, self.prompt.is_some())
    }
}

/// Returns the keys of the view of a task's examples.
fn view_toml(output: &TaskOutput, rows: RowOptions, has_prompt: bool) -> String {
    let target = match output {
        _ if has_prompt => "tokens",
        TaskOutput::Class { .. } | TaskOutput::Score { .. } => "row",
        TaskOutput::Spans { .. } => "span",
        TaskOutput::WordLabels { .. } => "tokens",
    };
    format!("kind = \"labelled_example\"\ntarget = \"{target}\"\ntwo_separators = {}\n", rows.separators == 2)
}

fn hash(file: &Path) -> std::io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(std::fs::File::open(file)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

//! Checks of the folders that initialize a run, without reading their weights.
//!
//! A folder that the trainer would refuse is a problem of the plan, so that `cloze plan` reports it with the others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemas::Problem;
use store::Store;

use crate::checkpoint::{self, MAIN_FILE, State, UnreadState};
use crate::encoder::padded_rows;
use crate::error::Error;
use crate::hf::{CONFIG, Target, read_config, weights_problem};
use crate::train_plan::TrainPlan;
use crate::weights::WeightSpecs;
use crate::{run_weights, safetensors_header};

/// Number of weights with another shape that a message names.
const MAX_NAMED: usize = 3;

/// Data and folders that exist when the start weights are checked.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The vocabulary of the data; it is assumed before the preparation, and its size is not compared then.
    pub vocab: bool,
    /// Every folder must exist. A plan before the preparation may name a folder that is downloaded later.
    pub folders: bool,
}

/// Returns the problem of a folder without the weight of a head that the part `head` of a run continues.
#[must_use]
pub fn missing_token_head(weight: &str, head: &str) -> String {
    format!(
        "it has no `{weight}`: `{head}` continues a head that predicts tokens, and no such head of the main network is here"
    )
}

/// Format of a folder of start weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderFormat {
    /// A checkpoint.
    Checkpoint,
    /// A model of `transformers`.
    Model,
    /// A run, of which the newest complete checkpoint is read.
    Run,
}

impl FolderFormat {
    /// Returns the format of a folder. A checkpoint that is also a model is read as a checkpoint: it has more weights.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        if folder.join(MAIN_FILE).is_file() {
            Self::Checkpoint
        } else if folder.join(CONFIG).is_file() {
            Self::Model
        } else {
            Self::Run
        }
    }
}

/// A folder that initializes weights of a run.
pub struct InitFolder {
    /// Configuration key that names the folder.
    pub key: String,
    /// The folder.
    pub folder: PathBuf,
    /// Network other than the main one that is initialized.
    network: Option<String>,
    /// Beginning of the names of the weights that must be in the folder.
    prefix: String,
    /// Whether heads and other networks are read too, if they are in the folder.
    reads_others: bool,
}

/// Returns the folders of `train.init_from`, `encoder.word_init` and `networks.NAME.init_from`.
pub fn folders(plan: &TrainPlan) -> Vec<InitFolder> {
    let main = [
        ("train.init_from", &plan.train.init_from, "encoder."),
        ("encoder.word_init", &plan.encoder.word_init, "encoder.embeddings.word."),
    ];
    let main = main.into_iter().filter_map(|(key, folder, prefix)| {
        let folder = folder.clone()?;
        let reads_others = key == "train.init_from";
        Some(InitFolder { key: key.to_owned(), folder, network: None, prefix: prefix.to_owned(), reads_others })
    });
    let others = plan.used_networks().into_iter().filter_map(|(name, network)| {
        let folder = network.init()?.to_owned();
        let key = format!("networks.{name}.init_from");
        let prefix = format!("{name}.");
        Some(InitFolder { key, folder, network: Some(name), prefix, reads_others: false })
    });
    main.chain(others).collect()
}

/// Returns the problems of the folders that initialize a run.
pub fn problems(plan: &TrainPlan, known: Known) -> Vec<Problem> {
    let specs = run_weights::of_run(plan);
    let found = folders(plan).into_iter().filter(|it| known.folders || it.folder.exists());
    found
        .filter_map(|init| {
            let target = match &init.network {
                None => Target::main(plan, specs.iter().map(|(name, _)| name)),
                Some(name) => Target::next_to(plan, name)?,
            };
            let check = FolderCheck { init: &init, plan, specs: &specs, knows_vocab: known.vocab };
            let problem = check.problem(&target)?;
            let hint = "set it to a run, a checkpoint or a `transformers` model folder of the same shape";
            Some(Problem::new(init.key.clone(), format!("{}: {problem}", init.folder.display())).hint(hint))
        })
        .collect()
}

struct FolderCheck<'a> {
    init: &'a InitFolder,
    plan: &'a TrainPlan,
    specs: &'a WeightSpecs,
    knows_vocab: bool,
}

impl FolderCheck<'_> {
    /// Returns the first problem of the folder, if any.
    fn problem(&self, target: &Target<'_>) -> Option<String> {
        if !self.init.folder.is_dir() {
            return Some("folder not found".to_owned());
        }
        let opened = || Store::existing(&self.init.folder).map_err(|error| error.to_string());
        let checked = match FolderFormat::of(&self.init.folder) {
            FolderFormat::Checkpoint => opened().and_then(|checkpoint| {
                let shapes = safetensors_header::shapes(&checkpoint, MAIN_FILE);
                self.checkpoint(&shapes.map_err(|error| error.to_string())?)
            }),
            FolderFormat::Model => self.model(target),
            FolderFormat::Run => opened().and_then(|run| self.checkpoint(&newest_shapes(&run)?)),
        };
        checked.err()
    }

    fn model(&self, target: &Target<'_>) -> Result<(), String> {
        let config = read_config(&self.init.folder)?;
        if let Some(problem) = weights_problem(&self.init.folder, &config) {
            return Err(problem);
        }
        let continues = || self.specs.iter().any(|(name, _)| self.plan.continued_weight(name).is_some());
        if self.init.reads_others && !config.predicts_tokens() && continues() {
            let class = config.class().unwrap_or("without `architectures`");
            return Err(format!("the model is a `{class}`, which has no head that predicts tokens to continue"));
        }
        let mut differences = config.shape_differences(target);
        differences.extend(config.vocab_difference(target).filter(|_| self.knows_vocab));
        if differences.is_empty() {
            Ok(())
        } else {
            Err(format!("the model has another shape: {}", differences.join("; ")))
        }
    }

    fn checkpoint(&self, shapes: &BTreeMap<String, Vec<i64>>) -> Result<(), String> {
        let differences = self.shape_differences(shapes);
        if differences.is_empty() {
            return Ok(());
        }
        let more = differences.len().saturating_sub(MAX_NAMED);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let named = differences.into_iter().take(MAX_NAMED).collect::<Vec<_>>().join("; ");
        Err(format!("the checkpoint has another shape: {named}{more}"))
    }

    fn shape_differences(&self, shapes: &BTreeMap<String, Vec<i64>>) -> Vec<String> {
        let read = self.specs.iter().filter(|(name, spec)| self.reads(name) && !self.is_of_unknown_vocab(&spec.shape));
        let source = |name: &str| self.plan.continued_weight(name).filter(|_| self.init.reads_others);
        read.filter_map(|(name, spec)| match found_shape(shapes, source(name).as_deref().unwrap_or(name)) {
            Some(shape) if *shape == spec.shape => None,
            // The trainer draws the head of another labelled task.
            Some(_) if self.plan.is_label_head(name) => None,
            Some(shape) => Some(format!("`{name}` is {shape:?}, this run needs {:?}", spec.shape)),
            None if name.starts_with(&self.init.prefix) => Some(format!("it has no `{name}`")),
            None => source(name).map(|source| missing_token_head(&source, name)),
        })
        .collect()
    }

    /// Whether the trainer reads this weight if the folder has it. A copy of the main network is copied after that.
    fn reads(&self, name: &str) -> bool {
        let network = name.split('.').next().and_then(|network| self.plan.networks.get(network));
        let is_copy = network.is_some_and(|network| network.copies_main());
        name.starts_with(&self.init.prefix) || (self.init.reads_others && !is_copy)
    }

    /// Whether a weight has a row for each id, and their number is unknown until the data exists.
    fn is_of_unknown_vocab(&self, shape: &[i64]) -> bool {
        let size = self.plan.vocab.size;
        !self.knows_vocab && shape.first().is_some_and(|rows| [i64::from(size), padded_rows(size)].contains(rows))
    }
}

/// Returns the shape of a weight. Tables that a generator shares with the main network are saved once.
fn found_shape<'a>(shapes: &'a BTreeMap<String, Vec<i64>>, name: &str) -> Option<&'a Vec<i64>> {
    let shared = || {
        let (_, table) = name.split_once('.').filter(|(_, table)| table.starts_with("encoder.embeddings."))?;
        shapes.get(table)
    };
    shapes.get(name).or_else(shared)
}

/// Returns the shapes of the weights of a run's newest checkpoint. A damaged one is skipped, as when the run starts.
fn newest_shapes(run: &Store) -> Result<BTreeMap<String, Vec<i64>>, String> {
    let steps = checkpoint::steps(run).map_err(|error| error.to_string())?;
    if steps.is_empty() {
        return Err(format!("it has neither `{CONFIG}`, `{MAIN_FILE}` nor a complete checkpoint"));
    }
    let shapes = |checkpoint: &Store, step| {
        State::read(checkpoint, step)?;
        safetensors_header::shapes(checkpoint, MAIN_FILE).map_err(|error| match error {
            Error::Checkpoint { path, problem } => UnreadState::Damaged { place: path.display().to_string(), problem },
            error => UnreadState::Other(error),
        })
    };
    let found = checkpoint::newest_complete(run, steps, shapes);
    let (found, damaged) = found.map_err(|error| error.to_string())?;
    found.ok_or_else(|| checkpoint::none_whole(run, &damaged).to_string())
}

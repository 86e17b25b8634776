//! Runs of a sweep: `sweep.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use schemas::Sealed;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{Created, Store};
use tasks::AnyTask;
use telemetry::quantities::count;

use super::grid::{Axis, Setting, draw, product};
use crate::cli::{PresetName, Statistic};
use crate::exit::Usage;
use crate::finetune::TaskFile;
use crate::finetune::few_shot_plan::FewShotPlan;
use crate::finetune::preset::Preset;
use crate::finetune::subset::TrainSubset;

/// Name of the plan in the folder of a sweep.
pub(crate) const NAME: &str = "sweep.json";

/// Folder of the runs.
const RUNS: &str = "runs";

/// Sweep on one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SweepPlan {
    /// Absolute folder with the files of the task.
    pub(crate) data: PathBuf,
    /// Task and its keys.
    pub(crate) task: AnyTask,
    /// Value of `--task`: a name, or an absolute path.
    pub(crate) task_argument: String,
    /// Number of training examples, on which hyperparameters of a preset depend.
    pub(crate) train_examples: u64,
    /// Absolute paths of the models.
    pub(crate) from: Vec<PathBuf>,
    /// Step of the checkpoint of each model that is a run.
    pub(crate) from_steps: Vec<Option<u64>>,
    /// Files of the task.
    pub(crate) files: Vec<TaskFile>,
    pub(crate) preset: Option<PresetName>,
    /// Values that the user listed.
    pub(crate) axes: Vec<Axis>,
    pub(crate) train_fraction: Vec<f64>,
    /// Prompts and few examples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) few_shot: Option<FewShotPlan>,
    /// Seeds are 1, 2, ….
    pub(crate) seeds: u64,
    pub(crate) draws: Option<u64>,
    pub(crate) draw_seed: u64,
    /// Statistic of the report, unless another is requested.
    pub(crate) statistic: Statistic,
}

impl Sealed for SweepPlan {
    const FORMAT: &'static str = "cloze sweep";
    const VERSION: u32 = 1;
    const PRETTY: bool = true;
}

/// One run of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunSpec {
    /// Name of its folder.
    pub(crate) name: String,
    /// Index of the model in [`SweepPlan::from`].
    pub(crate) model: usize,
    pub(crate) fraction: f64,
    pub(crate) settings: Vec<Setting>,
    pub(crate) seed: u64,
}

impl SweepPlan {
    /// Returns all runs: models, fractions, combinations, seeds, the last varying fastest.
    pub(crate) fn runs(&self) -> Vec<RunSpec> {
        let mut runs = Vec::new();
        let models = self.models();
        for model in 0..self.from.len() {
            for &fraction in &self.train_fraction {
                for settings in self.combinations(fraction) {
                    for seed in 1..=self.seeds {
                        let settings = settings.clone();
                        runs.push(RunSpec { name: String::new(), model, fraction, settings, seed });
                    }
                }
            }
        }
        let varied = varied(&runs);
        for run in &mut runs {
            run.name = self.run_name(run, &models, &varied);
        }
        distinguish(&mut runs);
        runs
    }

    /// Returns the combinations of hyperparameters for a share of the training set.
    fn combinations(&self, fraction: f64) -> Vec<Vec<Setting>> {
        let mut axes = self.axes.clone();
        let size = self.examples(fraction);
        for axis in self.preset.into_iter().flat_map(|preset| preset_axes(preset, self.task.kind(), size)) {
            if axes.iter().all(|known| known.key != axis.key) {
                axes.push(axis);
            }
        }
        let all = product(&axes);
        match self.draws {
            Some(draws) => draw(all, draws, self.draw_seed),
            None => all,
        }
    }

    /// Returns the shares of the training set in ascending order.
    pub(crate) fn fractions(&self) -> Vec<f64> {
        let mut fractions = self.train_fraction.clone();
        fractions.sort_by(f64::total_cmp);
        fractions
    }

    /// Returns the number of training examples of a run on a share of the training set.
    pub(crate) fn examples(&self, fraction: f64) -> u64 {
        TrainSubset::new(fraction, 1).map_or(self.train_examples, |subset| subset.size(self.train_examples))
    }

    /// Describes the training examples of the runs: `428 of 8,551`, one number for each share of the training set.
    pub(crate) fn describe_examples(&self) -> String {
        let used: Vec<u64> = self.fractions().into_iter().map(|fraction| self.examples(fraction)).collect();
        let is_part = used.iter().any(|used| *used < self.train_examples);
        let used: Vec<String> = used.into_iter().map(count).collect();
        let of = if is_part { format!(" of {}", count(self.train_examples)) } else { String::new() };
        let each = self.few_shot.and_then(|few_shot| few_shot.shots);
        let each = each.map_or(String::new(), |shots| format!(", {shots} of each class"));
        format!("{}{of}{each}", used.join(", "))
    }

    /// Returns whether its runs use the whole training set, and no part of it.
    pub(crate) fn uses_all_examples(&self) -> bool {
        self.train_fraction.iter().all(|fraction| *fraction >= 1.0)
    }

    /// Returns the short names of the models: the names of their folders, or their paths if those are equal.
    pub(crate) fn models(&self) -> Vec<String> {
        let short = |path: &PathBuf| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let is_unique = self.from.iter().map(short).collect::<BTreeSet<_>>().len() == self.from.len();
        let long = |path: &PathBuf| path.display().to_string();
        self.from.iter().map(|path| if is_unique { short(path) } else { long(path) }).collect()
    }

    /// Returns the name of a run: what distinguishes it from others, and its seed.
    fn run_name(&self, run: &RunSpec, models: &[String], varied: &BTreeSet<String>) -> String {
        let mut parts = Vec::new();
        if models.len() > 1 {
            parts.push(models[run.model].clone());
        }
        if self.train_fraction.len() > 1 {
            parts.push(format!("fraction{}", run.fraction));
        }
        parts.extend(run.settings.iter().filter(|setting| varied.contains(&setting.key)).map(Setting::short));
        parts.push(format!("seed{}", run.seed));
        let safe = |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '_' };
        let name: String = parts.join("-").chars().map(safe).collect();
        // A leading dot would hide the folder, and `..` leave it.
        name.trim_start_matches('.').to_owned()
    }

    /// Writes the plan, or compares it with that of the folder, which may have fewer seeds. Returns the plan with the checkpoints of the folder's: a
    /// run that is still training has newer ones.
    ///
    /// # Errors
    /// If the folder has another sweep, by the keys that differ.
    pub(crate) fn keep(mut self, folder: &Store) -> anyhow::Result<Self> {
        let found = match Self::read(folder)? {
            Some(found) => found,
            None => match folder.put_if_absent(NAME, &self.seal())? {
                Created::Made(_) => return Ok(self),
                // Another process was faster.
                Created::Exists => Self::read(folder)?
                    .with_context(|| format!("{}: it was written and removed again", folder.place(NAME)))?,
            },
        };
        if self.from == found.from {
            self.from_steps.clone_from(&found.from_steps);
        }
        // More seeds change no run that exists.
        if self.seeds > found.seeds && (Self { seeds: found.seeds, ..self.clone() }) == found {
            folder.put(NAME, &self.seal())?;
            return Ok(self);
        }
        self.compare(&found, &folder.place(NAME))?;
        Ok(self)
    }

    /// Reads the plan of a folder, if it has one.
    pub(crate) fn read(folder: &Store) -> anyhow::Result<Option<Self>> {
        let Some((bytes, _)) = folder.get_with_stat(NAME)? else { return Ok(None) };
        let plan = Self::unseal(&bytes).map_err(|error| Usage(format!("{}: {error}", folder.place(NAME))))?;
        Ok(Some(plan))
    }

    fn compare(&self, found: &Self, place: &str) -> anyhow::Result<()> {
        let (found, wanted) = (found.keys(), self.keys());
        let keys: BTreeSet<&String> = found.keys().chain(wanted.keys()).collect();
        let text = |value: Option<&Value>| value.map_or_else(|| "not set".to_owned(), ToString::to_string);
        let changed = keys.into_iter().filter(|key| found.get(*key) != wanted.get(*key));
        let differences: Vec<String> = changed
            .map(|key| format!("  {key}: {} there, {} here", text(found.get(key)), text(wanted.get(key))))
            .collect();
        if differences.is_empty() {
            return Ok(());
        }
        let differences = differences.join("\n");
        Err(Usage(format!("{place}: the folder has another sweep; name another --out\n{differences}")).into())
    }

    /// Returns what defines the runs, by flag or key.
    fn keys(&self) -> BTreeMap<String, Value> {
        let Ok(Value::Object(mut object)) = serde_json::to_value(self) else {
            unreachable!("a plan is an object with string keys")
        };
        // The statistic changes no run.
        object.retain(|key, _| !["axes", "task_argument", "statistic"].contains(&&**key));
        let mut keys: BTreeMap<String, Value> = object.into_iter().filter(|(_, value)| !value.is_null()).collect();
        keys.extend(self.axes.iter().map(|axis| (axis.key.clone(), Value::from(axis.values.clone()))));
        keys
    }

    /// Returns the folder of a run.
    pub(crate) fn run_folder(folder: &Path, run: &RunSpec) -> PathBuf {
        folder.join(RUNS).join(&run.name)
    }
}

/// Returns the keys of settings that are not the same in all runs.
pub(crate) fn varied(runs: &[RunSpec]) -> BTreeSet<String> {
    let Some(first) = runs.first() else { return BTreeSet::new() };
    let others = runs.iter().filter(|run| run.settings != first.settings);
    let differs = |run: &RunSpec| {
        let [ours, theirs] = [&run.settings, &first.settings];
        let only = |settings: &[Setting], others: &[Setting]| {
            settings.iter().filter(|setting| !others.contains(setting)).map(|it| it.key.clone()).collect::<Vec<_>>()
        };
        [only(ours, theirs), only(theirs, ours)].concat()
    };
    others.flat_map(differs).collect()
}

/// Returns the lists of a preset for a task.
fn preset_axes(preset: PresetName, task: &str, examples: u64) -> Vec<Axis> {
    let group = Preset::named(preset).group(task, examples);
    let axis = |key: &str, values: Vec<String>| Axis { key: key.to_owned(), values };
    let mut lr = group.lr.to_vec();
    lr.sort_by(f64::total_cmp);
    let sorted = |values: &[u64]| {
        let mut values = values.to_vec();
        values.sort_unstable();
        values.iter().map(ToString::to_string).collect()
    };
    let mut axes = vec![
        axis("lr", lr.iter().map(|lr| format!("{lr:e}")).collect()),
        axis("batch_size", sorted(group.batch_size)),
        axis("epochs", sorted(group.epochs)),
        axis("warmup", group.warmup.iter().map(ToString::to_string).collect()),
    ];
    if Preset::named(preset).steps.is_some() {
        axes.retain(|axis| axis.key != "epochs");
    }
    axes
}

/// Adds a hash to names that several runs share: other letters may have been replaced.
fn distinguish(runs: &mut [RunSpec]) {
    let mut seen = BTreeMap::new();
    for run in runs.iter() {
        *seen.entry(run.name.clone()).or_insert(0) += 1;
    }
    for run in runs.iter_mut().filter(|run| seen[&run.name] > 1) {
        let what = format!("{} {} {:?} {}", run.model, run.fraction, run.settings, run.seed);
        run.name.push('-');
        run.name.push_str(&blake3::hash(what.as_bytes()).to_hex()[..8]);
    }
}

#[cfg(test)]
mod tests {
    use store::FaultConfig;

    use super::*;

    fn plan() -> SweepPlan {
        let axis = |key: &str, values: &[&str]| Axis {
            key: key.to_owned(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
        };
        SweepPlan {
            data: "/data/CoLA".into(),
            task: AnyTask::of_kind("cola").expect("a task"),
            task_argument: "cola".to_owned(),
            train_examples: 8551,
            from: vec!["/runs/a".into()],
            from_steps: vec![Some(9)],
            files: Vec::new(),
            preset: None,
            axes: vec![axis("lr", &["1e-5", "3e-5"]), axis("epochs", &["3", "5"])],
            train_fraction: vec![1.0],
            few_shot: None,
            seeds: 3,
            draws: None,
            draw_seed: 1,
            statistic: Statistic::Mean,
        }
    }

    fn names(plan: &SweepPlan) -> Vec<String> {
        plan.runs().into_iter().map(|run| run.name).collect()
    }

    #[test]
    fn runs_are_all_combinations_with_all_seeds() {
        let runs = names(&plan());
        assert_eq!(runs.len(), 12);
        assert_eq!(runs[..4], ["lr1e-5-ep3-seed1", "lr1e-5-ep3-seed2", "lr1e-5-ep3-seed3", "lr1e-5-ep5-seed1"]);
        let several = SweepPlan {
            from: vec!["/runs/a".into(), "/runs/b".into()],
            train_fraction: vec![0.01, 1.0],
            axes: Vec::new(),
            seeds: 1,
            ..plan()
        };
        let expected = ["a-fraction0.01-seed1", "a-fraction1-seed1", "b-fraction0.01-seed1", "b-fraction1-seed1"];
        assert_eq!(names(&several), expected);
        let mut constant = plan();
        constant.axes[1].values.pop();
        assert_eq!(names(&constant)[3], "lr3e-5-seed1", "the number of epochs is the same in all runs");
    }

    #[test]
    fn names_are_safe_and_unique() {
        let axis = Axis { key: "train.init_from".to_owned(), values: vec!["../a".to_owned(), "..:a".to_owned()] };
        let runs = names(&SweepPlan { axes: vec![axis], from: vec!["/..".into()], ..plan() });
        assert!(runs.iter().all(|name| !name.contains('/') && !name.starts_with('.')), "{runs:?}");
        assert_eq!(runs.iter().collect::<BTreeSet<_>>().len(), runs.len());
        let equal = SweepPlan { from: vec!["/x/run".into(), "/y/run".into()], ..plan() };
        assert_eq!(equal.models(), ["/x/run", "/y/run"]);
    }

    #[test]
    fn a_preset_gives_the_lists_that_the_user_does_not() {
        let plan = SweepPlan { preset: Some(PresetName::CocoLmBase), seeds: 5, ..plan() };
        // 2 learning rates and 2 numbers of epochs of the user, 2 batch sizes and 2 warm-ups of the preset.
        assert_eq!(plan.runs().len(), 2 * 2 * 2 * 2 * 5);
        let whole = SweepPlan { axes: Vec::new(), ..plan.clone() };
        assert_eq!(whole.runs().len(), 5 * 2 * 4 * 2 * 5);
        // A large task, cut to a share with which it is small.
        let large = SweepPlan { train_examples: 392_702, train_fraction: vec![0.01, 1.0], ..whole };
        assert_eq!(large.runs().len(), 5 * 2 * 4 * 2 * 5 + 5 * 3 * 5);
        // Three learning rates and three batch sizes; all runs have 1,000 steps.
        let few = SweepPlan { preset: Some(PresetName::LmBff), axes: Vec::new(), ..plan.clone() };
        assert_eq!(few.runs().len(), 3 * 3 * 5);
        assert!(few.runs().iter().all(|run| run.settings.iter().all(|setting| setting.key != "epochs")));
        let drawn =
            SweepPlan { preset: Some(PresetName::TacoBase), axes: Vec::new(), draws: Some(6), seeds: 1, ..plan };
        assert_eq!(drawn.runs().len(), 6);
        assert_eq!(names(&drawn), names(&drawn.clone()));
    }

    #[test]
    fn another_sweep_is_refused_by_the_keys_that_differ() {
        let folder = Store::in_memory(FaultConfig::none());
        plan().keep(&folder).expect("new");
        SweepPlan { statistic: Statistic::Best, ..plan() }.keep(&folder).expect("the same runs");
        let mut other = SweepPlan { seeds: 4, ..plan() };
        other.axes[0].values.pop();
        let error = other.keep(&folder).expect_err("another").to_string();
        for words in ["seeds: 3 there, 4 here", r#"lr: ["1e-5","3e-5"] there, ["1e-5"] here"#, "another --out"] {
            assert!(error.contains(words), "{error}");
        }
        assert!(!error.contains("epochs"), "{error}");
    }
}

//! Request for a sweep, from the command line or from a TOML file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args as _;
use serde::Deserialize;
use tasks::AnyTask;

use super::grid::Axis;
use super::plan::SweepPlan;
use crate::cli::{Hyperparameters, Statistic, SweepRequest, Warmup};
use crate::exit::Usage;
use crate::finetune::few_shot_plan::FewShotPlan;
use crate::finetune::preset::Preset;
use crate::finetune::{self, CheckedInputs};

/// Sweep with the folder that it is written to.
pub(crate) struct Requested {
    pub(crate) plan: SweepPlan,
    pub(crate) out: PathBuf,
}

/// Keys of a sweep file: the arguments of `cloze sweep`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SweepFile {
    data: Option<PathBuf>,
    task: Option<String>,
    from: Option<OneOrMore>,
    out: Option<PathBuf>,
    preset: Option<String>,
    statistic: Option<String>,
    seeds: Option<u64>,
    lr: Option<OneOrMore>,
    batch_size: Option<OneOrMore>,
    epochs: Option<OneOrMore>,
    warmup: Option<OneOrMore>,
    weight_decay: Option<OneOrMore>,
    max_seq_len: Option<OneOrMore>,
    train_fraction: Option<OneOrMore>,
    prompt: bool,
    shots: Option<u64>,
    demonstrations: Option<u32>,
    draws: Option<u64>,
    draw_seed: Option<u64>,
    /// Values by key of the configuration.
    set: BTreeMap<String, toml::Value>,
}

/// Value, or list of values.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    More(Vec<toml::Value>),
    One(toml::Value),
}

impl OneOrMore {
    /// Returns the values as on the command line. Texts are written without quotes.
    fn texts(self) -> Vec<String> {
        let text = |value: toml::Value| match value {
            toml::Value::String(text) => text,
            other => other.to_string(),
        };
        match self {
            Self::More(values) => values.into_iter().map(text).collect(),
            Self::One(value) => vec![text(value)],
        }
    }
}

impl Requested {
    /// Checks the arguments, the task, its files and the models. Nothing is written.
    ///
    /// # Errors
    /// The first argument that cannot be used.
    pub(crate) fn new(request: &SweepRequest) -> anyhow::Result<Self> {
        let request = match &request.data {
            Some(file) if file.extension().is_some_and(|ending| ending == "toml") => from_file(file, request)?,
            _ => request.clone(),
        };
        let needed = |name: &str| Usage(format!("`cloze sweep` needs {name}; see `cloze sweep --help`"));
        let data = std::path::absolute(request.data.as_ref().ok_or_else(|| needed("DATA"))?)?;
        let task_argument = request.task.clone().ok_or_else(|| needed("--task"))?;
        let out = std::path::absolute(request.out.as_ref().ok_or_else(|| needed("--out"))?)?;
        if request.from.is_empty() {
            return Err(needed("--from").into());
        }
        let task = finetune::task(&task_argument)?;
        let is_file = Path::new(&task_argument).extension().is_some_and(|ending| ending == "toml");
        let task_argument =
            if is_file { std::path::absolute(task_argument)?.display().to_string() } else { task_argument };
        let from = request.from.iter().map(std::path::absolute).collect::<Result<Vec<_>, _>>()?;
        unique("--from", &from.iter().map(|path| path.display().to_string()).collect::<Vec<_>>())?;
        let axes = axes(&request)?;
        let fractions = numbers("--train-fraction", &request.train_fraction)?;
        let few_shot = few_shot_plan(&request, &task, !fractions.is_empty())?;
        let CheckedInputs { examples: all, files, steps: from_steps } = finetune::check(&task, &data, &from)?;
        let train_examples = few_shot.map_or(all, |few_shot| few_shot.size(&task, all));
        let preset = request.preset.map(Preset::named);
        let plan = SweepPlan {
            data,
            task,
            task_argument,
            train_examples,
            from,
            from_steps,
            files,
            preset: request.preset,
            axes,
            few_shot,
            train_fraction: if fractions.is_empty() { vec![1.0] } else { fractions },
            seeds: request.seeds.or_else(|| preset?.seeds).unwrap_or(1),
            draws: request.draws.or_else(|| preset?.draws),
            draw_seed: request.draw_seed.unwrap_or(1),
            statistic: request.statistic.or_else(|| preset?.statistic).unwrap_or_default(),
        };
        Ok(Self { plan, out })
    }
}

/// Returns the flags for prompts and few examples. The keys of a file are checked as flags are.
fn few_shot_plan(request: &SweepRequest, task: &AnyTask, has_fractions: bool) -> anyhow::Result<Option<FewShotPlan>> {
    let SweepRequest { prompt, shots, demonstrations, .. } = request;
    if shots.is_some() && has_fractions {
        return Err(Usage("--shots cannot be used with --train-fraction; remove one of them".to_owned()).into());
    }
    if demonstrations.is_some() && !(*prompt && shots.is_some()) {
        return Err(Usage("--demonstrations needs --prompt and --shots".to_owned()).into());
    }
    if let Some(shots) = shots {
        checked("--shots", &shots.to_string())?;
    }
    if demonstrations.is_some_and(|sets| sets > 256) {
        return Err(Usage("--demonstrations: write at most 256".to_owned()).into());
    }
    let plan = FewShotPlan::new(*prompt, *shots, *demonstrations);
    plan.map_or(Ok(()), |plan| plan.check(task))?;
    Ok(plan)
}

/// Reads a sweep file. Of the command line, only `--out` and `--statistic` may be given in addition.
fn from_file(file: &Path, flags: &SweepRequest) -> anyhow::Result<SweepRequest> {
    let refuse = |problem: String| Usage(format!("{}: {problem}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| refuse(error.to_string()))?;
    let found: SweepFile = toml::from_str(&text).map_err(|error| refuse(error.to_string()))?;
    let SweepRequest { data, out, statistic, .. } = flags;
    let allowed =
        SweepRequest { data: data.clone(), out: out.clone(), statistic: *statistic, ..SweepRequest::default() };
    if format!("{allowed:?}") != format!("{flags:?}") {
        let message = "a sweep file has the arguments of the sweep; only --out and --statistic may be given with it";
        return Err(refuse(message.to_owned()).into());
    }
    let preset = found.preset.map(|name| clap_value("preset", &name)).transpose().map_err(refuse)?;
    let named = found.statistic.map(|name| clap_value::<Statistic>("statistic", &name)).transpose().map_err(refuse)?;
    let list = |values: Option<OneOrMore>| values.map(OneOrMore::texts).unwrap_or_default();
    let mut set = Vec::new();
    found.set.into_iter().for_each(|(key, value)| add_keys(&key, value, &mut set));
    Ok(SweepRequest {
        data: found.data,
        task: found.task,
        from: list(found.from).into_iter().map(PathBuf::from).collect(),
        out: out.clone().or(found.out),
        preset,
        seeds: found.seeds,
        lr: list(found.lr),
        batch_size: list(found.batch_size),
        epochs: list(found.epochs),
        warmup: list(found.warmup),
        weight_decay: list(found.weight_decay),
        max_seq_len: list(found.max_seq_len),
        train_fraction: list(found.train_fraction),
        prompt: found.prompt,
        shots: found.shots,
        demonstrations: found.demonstrations,
        set,
        draws: found.draws,
        draw_seed: found.draw_seed,
        statistic: statistic.or(named),
    })
}

fn clap_value<T: clap::ValueEnum>(key: &str, name: &str) -> Result<T, String> {
    T::from_str(name, false).map_err(|_| {
        let known = T::value_variants().iter().filter_map(clap::ValueEnum::to_possible_value);
        let known: Vec<String> = known.map(|value| value.get_name().to_owned()).collect();
        format!("`{key}` = `{name}`: expected one of {}", known.join(", "))
    })
}

/// Adds the values of a key. The keys of a table are below it, as in `[set.train]` or `train.threads = 1`.
fn add_keys(key: &str, value: toml::Value, set: &mut Vec<String>) {
    match value {
        toml::Value::Table(table) => {
            table.into_iter().for_each(|(inner, value)| add_keys(&format!("{key}.{inner}"), value, set));
        }
        toml::Value::Array(values) => set.push(format!("{key}={}", OneOrMore::More(values).texts().join(","))),
        value => set.push(format!("{key}={}", OneOrMore::One(value).texts().join(","))),
    }
}

/// Keys that the sweep itself sets for each run.
const OWN_KEYS: [&str; 4] = ["seed", "run.folder", "data.folder", "train.init_from"];

/// Returns the lists of the user. Numbers are written in one form, so that equal values have equal names.
fn axes(request: &SweepRequest) -> anyhow::Result<Vec<Axis>> {
    let whole = |flag: &str, values: &[String]| -> anyhow::Result<Vec<String>> {
        let parsed = values.iter().map(|value| Ok(checked(flag, value)?.parse::<u64>()?.to_string()));
        parsed.collect()
    };
    let warmup = |value: &String| -> anyhow::Result<String> {
        let parsed = checked("--warmup", value)?.parse::<Warmup>();
        Ok(parsed.map_err(|problem| invalid("--warmup", value, &problem))?.to_string())
    };
    let lr = numbers("--lr", &request.lr)?;
    let decay = numbers("--weight-decay", &request.weight_decay)?;
    let mut axes = Vec::new();
    for (key, values) in [
        ("lr", lr.iter().map(|lr| format!("{lr:e}")).collect()),
        ("batch_size", whole("--batch-size", &request.batch_size)?),
        ("epochs", whole("--epochs", &request.epochs)?),
        ("warmup", request.warmup.iter().map(warmup).collect::<Result<Vec<_>, _>>()?),
        ("weight_decay", decay.iter().map(ToString::to_string).collect()),
        ("max_seq_len", whole("--max-seq-len", &request.max_seq_len)?),
    ] {
        unique(&format!("--{}", key.replace('_', "-")), &values)?;
        if !values.is_empty() {
            axes.push(Axis { key: key.to_owned(), values });
        }
    }
    for set in &request.set {
        let (key, list) = set.split_once('=').ok_or_else(|| invalid("--set", set, "expected KEY=VALUE,VALUE"))?;
        let values = split_list(list);
        if key.trim().is_empty() || values.iter().any(String::is_empty) {
            return Err(invalid("--set", set, "expected KEY=VALUE,VALUE").into());
        }
        if OWN_KEYS.contains(&key.trim()) {
            return Err(invalid("--set", set, "the sweep sets this key for each run; remove it").into());
        }
        if axes.iter().any(|axis| axis.key == key) {
            return Err(invalid("--set", set, "the key is listed twice").into());
        }
        unique(&format!("--set {key}"), &values)?;
        axes.push(Axis { key: key.to_owned(), values });
    }
    Ok(axes)
}

fn invalid(flag: &str, value: &str, problem: &str) -> Usage {
    Usage(format!("{flag} `{value}`: {problem}"))
}

/// Returns a value without white space around it, if `cloze finetune` accepts it for the flag.
fn checked<'a>(flag: &str, value: &'a str) -> anyhow::Result<&'a str> {
    let value = value.trim();
    let command = Hyperparameters::augment_args(clap::Command::new("finetune").no_binary_name(true));
    match command.try_get_matches_from([format!("{flag}={value}")]) {
        Ok(_) => Ok(value),
        Err(error) => {
            let text = error.to_string();
            let problem = text.lines().next().unwrap_or_default();
            let problem = problem.rsplit_once(">': ").map_or(problem, |(_, problem)| problem);
            Err(invalid(flag, value, problem).into())
        }
    }
}

fn numbers(flag: &str, values: &[String]) -> anyhow::Result<Vec<f64>> {
    let parsed = values.iter().map(|value| Ok(checked(flag, value)?.parse::<f64>()?));
    let numbers = parsed.collect::<anyhow::Result<Vec<_>>>()?;
    unique(flag, &numbers.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    Ok(numbers)
}

fn unique(flag: &str, values: &[String]) -> Result<(), Usage> {
    let twice = values.iter().enumerate().find(|(at, value)| values[..*at].contains(value));
    twice.map_or(Ok(()), |(_, value)| Err(invalid(flag, value, "listed twice")))
}

/// Splits a list at its commas, except those in brackets, braces and quotes: they are part of a TOML value.
fn split_list(text: &str) -> Vec<String> {
    let mut values = vec![String::new()];
    let mut depth = 0_usize;
    let mut quote = None;
    for letter in text.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                values.push(String::new());
                continue;
            }
            _ => {}
        }
        values.last_mut().expect("never empty").push(letter);
    }
    values.into_iter().map(|value| value.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_split_outside_of_toml_values() {
        assert_eq!(split_list("1, 2"), ["1", "2"]);
        assert_eq!(split_list("[0.9, 0.98],[0.9,0.999]"), ["[0.9, 0.98]", "[0.9,0.999]"]);
        assert_eq!(split_list("\"a,b\",{ a = 1, b = 2 }"), ["\"a,b\"", "{ a = 1, b = 2 }"]);
        assert_eq!(split_list(""), [""]);
    }

    #[test]
    fn lists_are_checked_and_written_in_one_form() {
        let texts = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect::<Vec<_>>();
        let request = |lr: &[&str], set: &[&str]| SweepRequest { lr: texts(lr), set: texts(set), ..Default::default() };
        let found = axes(&request(&["0.00001", "3e-5"], &["optimizer.betas=[0.9,0.98]"])).expect("valid");
        assert_eq!(found[0].values, ["1e-5", "3e-5"]);
        assert_eq!(found[1].values, ["[0.9,0.98]"]);
        for (lr, set, word) in [
            (&["0"][..], &[][..], "--lr `0`"),
            (&["x"], &[], "--lr `x`"),
            (&["1e-5", "0.00001"], &[], "listed twice"),
            (&[], &["train.steps"], "KEY=VALUE"),
            (&[], &["train.steps=1,"], "KEY=VALUE"),
            (&[], &["train.steps=1", "train.steps=2"], "listed twice"),
        ] {
            let error = axes(&request(lr, set)).expect_err("invalid").to_string();
            assert!(error.contains(word), "{error}");
        }
        let request = SweepRequest { warmup: texts(&["0.1", "100"]), ..Default::default() };
        assert_eq!(axes(&request).expect("valid")[0].values, ["0.1", "100"]);
    }
}

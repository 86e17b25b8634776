//! `cloze report`: writes runs into one self-contained HTML file.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use schemas::shell_quoted;
use server::Kind;
use server::report::Report;
use telemetry::Clock;
use telemetry::quantities::count;
use telemetry::terminal::outcome;

use super::output_file::put;
use super::sweep;
use crate::config::Config;
use crate::exit::Usage;
use crate::report::run_summary::{is_run, steps};
use crate::run::monitoring::{PROGRAM, about, settings};
use crate::sweep::results::SweepResults;
use crate::sweep::{page, plan};

/// Writes the report of these runs to `out`, and each metric as a plot into the folder `svg`.
pub(crate) fn run(runs: &[PathBuf], out: &Path, svg: Option<&Path>) -> anyhow::Result<()> {
    let is_sweep = |folder: &&PathBuf| folder.join(plan::NAME).is_file();
    match runs.iter().filter(is_sweep).count() {
        0 => {}
        sweeps if sweeps == runs.len() => return of_sweeps(runs, out, svg),
        _ => {
            let message =
                "runs and sweeps do not fit into one report; write one about the runs, and one about the sweeps";
            return Err(Usage(message.to_owned()).into());
        }
    }
    let mut report = Report::new(PROGRAM, Clock::system().time());
    let mut shown: Vec<PathBuf> = Vec::new();
    for folder in runs {
        // `.` needs a name too: the name labels the curve.
        let folder = &folder.canonicalize().unwrap_or_else(|_| folder.clone());
        if shown.contains(folder) {
            continue;
        }
        let store = remote_store::existing_path(folder).map_err(|_| Usage(describe_missing(folder)))?;
        let Some((config, _)) = store.get_with_stat("config.toml")? else {
            return Err(Usage(describe_missing(folder)).into());
        };
        let config = String::from_utf8(config).with_context(|| folder.display().to_string())?;
        let mut about = about(Kind::Train, folder);
        // Runs in different folders may have equal names.
        if shown.iter().any(|other| other.file_name() == folder.file_name()) {
            about.name.clone_from(&about.place);
        }
        report.add(&about, &store, settings(&config, &Config::unwritten().resolved(), steps(&store)?));
        shown.push(folder.clone());
    }
    put(out, &report.html())?;
    let unit = if shown.len() == 1 { "run" } else { "runs" };
    outcome(format_args!("{}: {} {unit}", out.display(), count(shown.len() as u64)));
    let Some(svg) = svg else { return Ok(()) };
    fs::create_dir_all(svg).with_context(|| svg.display().to_string())?;
    let mut plots = 0;
    for (figure, plot) in report.plots() {
        put(&svg.join(format!("{}.svg", file_name(figure))), &plot)?;
        plots += 1;
    }
    outcome(format_args!("{}: {} plots", svg.display(), count(plots)));
    Ok(())
}

/// Writes a page that compares the models of sweeps.
fn of_sweeps(folders: &[PathBuf], out: &Path, svg: Option<&Path>) -> anyhow::Result<()> {
    if svg.is_some() {
        return Err(Usage("--svg plots the metrics of runs; leave it out for sweeps".to_owned()).into());
    }
    let read = |folder: &PathBuf| SweepResults::read(sweep::read_plan(folder)?, folder);
    let sweeps = folders.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    put(out, &page::page(&sweeps))?;
    let unit = if sweeps.len() == 1 { "sweep" } else { "sweeps" };
    outcome(format_args!("{}: {} {unit}", out.display(), count(sweeps.len() as u64)));
    Ok(())
}

/// Says why a path is no run, and what to pass instead: the runs in it, if it is a folder of runs.
fn describe_missing(path: &Path) -> String {
    let place = path.display();
    let runs = fs::read_dir(path).map(|entries| entries.flatten().map(|entry| entry.path())).into_iter().flatten();
    let mut runs: Vec<String> = runs.filter(|path| is_run(path)).map(shell_quoted).collect();
    runs.sort();
    if runs.is_empty() {
        let hint = "pass the folder of `run.folder`, which has a `config.toml`; `cloze runs` lists runs";
        return format!("{place}: no run is here; {hint}");
    }
    let rest = if runs.len() > RUNS_NAMED { " …" } else { "" };
    runs.truncate(RUNS_NAMED);
    format!("{place}: a folder of runs, not a run; pass the runs: `cloze report {}{rest}`", runs.join(" "))
}

/// Number of runs that an error names.
const RUNS_NAMED: usize = 3;

/// Maximum length of a file name from a metric. File systems allow 255 bytes.
const NAME_MAX: usize = 100;

/// File name of a metric. Names of objectives are arbitrary, so a name that is truncated or altered carries a hash.
fn file_name(figure: &str) -> String {
    let name: String = figure
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '-' })
        .take(NAME_MAX)
        .collect();
    // Most names differ from their file name only by slashes, and need no hash.
    if name == figure.replace('/', "-") {
        return name;
    }
    format!("{name}-{}", &blake3::hash(figure.as_bytes()).to_hex()[..8])
}

#[cfg(test)]
mod tests {
    use super::{describe_missing, file_name};

    #[test]
    fn error_without_a_run_names_the_runs_to_pass() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let none = describe_missing(home.path());
        assert!(none.contains("no run is here") && none.contains("`run.folder`"), "{none}");
        for run in ["a", "b", "c", "d"] {
            let store = store::Store::folder(home.path().join("my runs").join(run)).expect("a folder");
            store.put("config.toml", b"").expect("written");
            store.put("log/00000000.jsonl", b"").expect("written");
        }
        let several = describe_missing(&home.path().join("my runs"));
        assert!(several.contains("a folder of runs") && several.ends_with(" …`"), "{several}");
        assert_eq!(several.matches("my runs/").count(), 3, "{several}");
        assert!(several.contains("/my runs/a' '") && several.contains("/my runs/c' …`"), "{several}");
    }

    #[test]
    fn no_metric_leaves_its_folder() {
        assert_eq!(file_name("terms/../../x"), "terms-..-..-x");
        assert_eq!(file_name("valid/mlm.accuracy"), "valid-mlm.accuracy");
        let long = file_name(&"x".repeat(300));
        assert!(long.len() < 120 && long != file_name(&"x".repeat(301)), "{long}");
        assert!(file_name("terms/a b") != file_name("terms/a-b"));
    }
}

//! `cloze report`: writes runs into one self-contained HTML file.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use server::Kind;
use server::report::Report;
use store::Store;
use telemetry::Clock;
use telemetry::quantities::count;
use telemetry::terminal::outcome;

use super::output_file::put;
use crate::config::Config;
use crate::exit::Usage;
use crate::run::monitoring::{PROGRAM, about, settings};

/// Writes the report of these runs to `out`, and each metric as a plot into the folder `svg`.
pub(crate) fn run(runs: &[PathBuf], out: &Path, svg: Option<&Path>) -> anyhow::Result<()> {
    let mut report = Report::new(PROGRAM, Clock::system().time());
    let mut shown: Vec<PathBuf> = Vec::new();
    for folder in runs {
        // `.` needs a name too: the name labels the curve.
        let folder = &folder.canonicalize().unwrap_or_else(|_| folder.clone());
        if shown.contains(folder) {
            continue;
        }
        let store = Store::existing(folder).with_context(|| Usage(format!("{}: no run is here", folder.display())))?;
        let config = fs::read_to_string(folder.join("config.toml")).with_context(|| {
            Usage(format!("{}: no run is here (no `config.toml`); name the folder of `run.folder`", folder.display()))
        })?;
        let mut about = about(Kind::Train, folder);
        // Runs in different folders may have equal names.
        if shown.iter().any(|other| other.file_name() == folder.file_name()) {
            about.name.clone_from(&about.place);
        }
        report.add(&about, &store, settings(&config, &Config::unwritten().resolved()));
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
    use super::file_name;

    #[test]
    fn no_metric_leaves_its_folder() {
        assert_eq!(file_name("terms/../../x"), "terms-..-..-x");
        assert_eq!(file_name("valid/mlm.accuracy"), "valid-mlm.accuracy");
        let long = file_name(&"x".repeat(300));
        assert!(long.len() < 120 && long != file_name(&"x".repeat(301)), "{long}");
        assert!(file_name("terms/a b") != file_name("terms/a-b"));
    }
}

//! `cloze report`: runs in one file that opens anywhere.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use server::Kind;
use server::report::Report;
use store::Store;
use telemetry::Clock;
use telemetry::quantities::count;
use telemetry::terminal::told;

use super::output_file::put;
use crate::config::Config;
use crate::exit::Usage;
use crate::run::monitoring::{PROGRAM, about, settings};

/// Writes the page of these runs to `out`, and each figure as a plot into the folder `svg`.
pub(crate) fn run(runs: &[PathBuf], out: &Path, svg: Option<&Path>) -> anyhow::Result<()> {
    let mut report = Report::new(PROGRAM, Clock::system().time());
    let mut shown: Vec<PathBuf> = Vec::new();
    for folder in runs {
        // `.` has a name too, and one run is one curve.
        let folder = &folder.canonicalize().unwrap_or_else(|_| folder.clone());
        if shown.contains(folder) {
            continue;
        }
        let store = Store::existing(folder).with_context(|| Usage(format!("{}: no run is here", folder.display())))?;
        let config = fs::read_to_string(folder.join("config.toml")).with_context(|| {
            Usage(format!("{}: no run is here (no `config.toml`); name the folder of `run.folder`", folder.display()))
        })?;
        let mut about = about(Kind::Train, folder);
        // Two runs may have one name in different folders.
        if shown.iter().any(|other| other.file_name() == folder.file_name()) {
            about.name.clone_from(&about.place);
        }
        report.add(&about, &store, settings(&config, &Config::unwritten().resolved()));
        shown.push(folder.clone());
    }
    put(out, &report.html())?;
    let unit = if shown.len() == 1 { "run" } else { "runs" };
    told(format_args!("{}: {} {unit}", out.display(), count(shown.len() as u64)));
    let Some(svg) = svg else { return Ok(()) };
    fs::create_dir_all(svg).with_context(|| svg.display().to_string())?;
    let mut plots = 0;
    for (figure, plot) in report.plots() {
        put(&svg.join(format!("{}.svg", file_name(figure))), &plot)?;
        plots += 1;
    }
    told(format_args!("{}: {} plots", svg.display(), count(plots)));
    Ok(())
}

/// Letters of a file's name that a figure gives: systems take 255 bytes.
const NAME_MAX: usize = 100;

/// A figure's name as that of a file: names of objectives are anybody's. One that is
/// cut, or written otherwise, carries a hash.
fn file_name(figure: &str) -> String {
    let name: String = figure
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '-' })
        .take(NAME_MAX)
        .collect();
    // Slashes are in most names, and in no other way replaced.
    if name == figure.replace('/', "-") {
        return name;
    }
    format!("{name}-{}", &blake3::hash(figure.as_bytes()).to_hex()[..8])
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn no_figure_leaves_its_folder() {
        assert_eq!(file_name("terms/../../x"), "terms-..-..-x");
        assert_eq!(file_name("valid/mlm.accuracy"), "valid-mlm.accuracy");
        let long = file_name(&"x".repeat(300));
        assert!(long.len() < 120 && long != file_name(&"x".repeat(301)), "{long}");
        assert!(file_name("terms/a b") != file_name("terms/a-b"));
    }
}

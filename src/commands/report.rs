//! `cloze report`: runs in one file that opens anywhere.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use observe::Clock;
use serve::Kind;
use serve::report::Report;
use store::Store;

use crate::config::Config;
use crate::exit::Usage;
use crate::seen::{PROGRAM, about, settings};
use crate::terminal::{count, told};

/// Writes the page of these runs to `out`, and each figure as a plot into the folder `svg`.
pub(crate) fn run(runs: &[PathBuf], out: &Path, svg: Option<&Path>) -> anyhow::Result<()> {
    let mut report = Report::new(format!("{PROGRAM}, {}", Clock::system().time()));
    for (number, folder) in runs.iter().enumerate() {
        let store = Store::existing(folder).with_context(|| Usage(format!("{}: no run is here", folder.display())))?;
        let config = fs::read_to_string(folder.join("config.toml")).with_context(|| {
            Usage(format!("{}: no run is here (no `config.toml`); name the folder of `run.folder`", folder.display()))
        })?;
        let mut about = about(Kind::Train, folder);
        // Two runs may have one name in different folders.
        if runs[..number].iter().any(|other| other.file_name() == folder.file_name()) {
            about.name.clone_from(&about.place);
        }
        report.add(&about, &store, settings(&config, &Config::unwritten().resolved()));
    }
    put(out, &report.html())?;
    let unit = if runs.len() == 1 { "run" } else { "runs" };
    told(format_args!("{}: {} {unit}", out.display(), count(runs.len() as u64)));
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

/// A file that is whole or absent.
fn put(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().with_context(|| Usage(format!("{}: a file has a name", path.display())))?;
    let store = Store::folder(folder).with_context(|| folder.display().to_string())?;
    store.put(&name.to_string_lossy(), text.as_bytes()).with_context(|| path.display().to_string())?;
    Ok(())
}

/// A figure's name as that of a file: names of objectives are anybody's.
fn file_name(figure: &str) -> String {
    figure.chars().map(|letter| if letter.is_alphanumeric() || "._-".contains(letter) { letter } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn no_figure_leaves_its_folder() {
        assert_eq!(file_name("terms/../../x"), "terms-..-..-x");
        assert_eq!(file_name("valid/mlm.accuracy"), "valid-mlm.accuracy");
    }
}

//! Edits of a configuration file that change a few numbers and keep comments, order and line ends.

use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use toml::Table;
use toml_edit::{DocumentMut, InlineTable, Item, TableLike, Value};

use crate::commands::output_file;
use crate::exit::Usage;

/// Byte order mark, which editors on some systems write.
const MARK: char = '\u{feff}';

/// Configuration file as first read.
pub(super) struct ConfigFile {
    path: PathBuf,
    text: String,
}

impl ConfigFile {
    /// Reads the file.
    ///
    /// # Errors
    /// [`Usage`] if the file cannot be read.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            return Err(Usage(format!("{}: no plain file; name one that can be changed", path.display())).into());
        }
        let text = std::fs::read_to_string(path)
            .map_err(|error| Usage(format!("{}: {error}; give a readable file", path.display())))?;
        Ok(Self { path: path.to_owned(), text })
    }

    /// Refuses a file that cannot be written, before any measurement.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let found = self.path.metadata().with_context(|| self.path.display().to_string())?;
        if found.permissions().readonly() {
            let message = "the file is read-only; `--dry-run` measures without writing";
            return Err(Usage(format!("{}: {message}", self.path.display())).into());
        }
        output_file::check_writable(&self.path)
    }

    /// Writes these keys (section and name) into the file, atomically.
    ///
    /// # Errors
    /// [`Usage`] if the file has changed since it was read, or if a key cannot be placed in it.
    pub(super) fn write(&self, changes: &[(&str, u64)]) -> anyhow::Result<()> {
        let place = self.path.display();
        let values: Vec<String> = changes.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        let by_hand = format!("write it yourself: {}", values.join(", "));
        let now = std::fs::read_to_string(&self.path).map_err(|error| Usage(format!("{place}: {error}; {by_hand}")))?;
        if now != self.text {
            return Err(Usage(format!("{place}: the file has changed in the meantime; {by_hand}")).into());
        }
        let text = edited(&self.text, changes).map_err(|why| Usage(format!("{place}: {why}; {by_hand}")))?;
        let before = self.path.metadata().with_context(|| place.to_string())?;
        output_file::put(&self.path, &text).with_context(|| format!("{place}: cannot write; {by_hand}"))?;
        // The replacement belongs to this process's user; the original may belong to another, so its owner is restored.
        let mine = self.path.metadata().with_context(|| place.to_string())?;
        if (before.uid(), before.gid()) != (mine.uid(), mine.gid()) {
            chown(&self.path, Some(before.uid()), Some(before.gid())).with_context(|| place.to_string())?;
        }
        std::fs::set_permissions(&self.path, before.permissions()).with_context(|| place.to_string())
    }
}

/// Text with these keys changed.
fn edited(text: &str, changes: &[(&str, u64)]) -> Result<String, String> {
    let bare = text.strip_prefix(MARK).unwrap_or(text);
    // The parser preserves line ends of its input and writes new lines with `\n`.
    let has_returns = bare.contains("\r\n");
    let bare = bare.replace("\r\n", "\n");
    let mut document: DocumentMut = bare.parse().map_err(|error| format!("not valid TOML: {error}"))?;
    for (key, value) in changes {
        let (section, name) = key.split_once('.').ok_or_else(|| format!("`{key}` has no section"))?;
        set(&mut document, section, name, *value)?;
    }
    let mut changed = document.to_string();
    if !bare.is_empty() && !bare.ends_with('\n') && changed.ends_with('\n') {
        changed.pop();
    }
    check(&bare, &changed, changes)?;
    if has_returns {
        changed = changed.replace('\n', "\r\n");
    }
    Ok(if text.starts_with(MARK) { format!("{MARK}{changed}") } else { changed })
}

fn set(document: &mut DocumentMut, section: &str, name: &str, value: u64) -> Result<(), String> {
    let number = Value::from(i64::try_from(value).map_err(|_| format!("{value} is out of range of TOML"))?);
    let is_empty = document.is_empty();
    let item = document.entry(section).or_insert_with(|| {
        let mut table = toml_edit::Table::new();
        table.decor_mut().set_prefix(if is_empty { "" } else { "\n" });
        Item::Table(table)
    });
    if let Some(inline) = item.as_inline_table_mut().filter(|inline| !inline.contains_key(name)) {
        append(inline, name, number);
        return Ok(());
    }
    let table: &mut dyn TableLike = item.as_table_like_mut().ok_or_else(|| format!("`{section}` is not a section"))?;
    match table.get_mut(name).and_then(Item::as_value_mut) {
        Some(old) => {
            let decor = old.decor().clone();
            *old = number;
            *old.decor_mut() = decor;
        }
        None => {
            table.insert(name, Item::Value(number));
        }
    }
    Ok(())
}

/// Appends a key to `{ a = 1 }`, before the closing space.
fn append(table: &mut InlineTable, name: &str, mut number: Value) {
    if let Some((_, last)) = table.iter_mut().last() {
        let end = last.decor().suffix().and_then(|end| end.as_str()).unwrap_or_default().to_owned();
        last.decor_mut().set_suffix("");
        number.decor_mut().set_prefix(" ");
        number.decor_mut().set_suffix(end);
    }
    table.insert(name, number);
}

/// Checks that nothing else changes.
fn check(before: &str, after: &str, changes: &[(&str, u64)]) -> Result<(), String> {
    let read = |text: &str| text.parse::<Table>().map_err(|error| format!("cannot edit: {error}"));
    let mut expected = read(before)?;
    let found = read(after)?;
    for (key, value) in changes {
        let (section, name) = key.split_once('.').unwrap_or_default();
        let table = expected.entry(section).or_insert_with(|| toml::Value::Table(Table::new()));
        if let (Some(table), Ok(value)) = (table.as_table_mut(), i64::try_from(*value)) {
            table.insert(name.to_owned(), value.into());
        }
    }
    if expected == found { Ok(()) } else { Err("cannot edit the key without changing others".to_owned()) }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn check_edit(before: &str, changes: &[(&str, u64)], after: &str) {
        assert_eq!(edited(before, changes).as_deref(), Ok(after), "of {before:?}");
    }

    #[test]
    fn a_number_changes_and_nothing_else() {
        let workers = [("data.workers", 4)];
        check_edit(
            "# a run\nseed = 1\n\n[data]   # what\n workers  =  2  # two\ndepth=3\n\n[train]\nsteps = 5\n",
            &workers,
            "# a run\nseed = 1\n\n[data]   # what\n workers  =  4  # two\ndepth=3\n\n[train]\nsteps = 5\n",
        );
        check_edit("[data]\nworkers = 2", &workers, "[data]\nworkers = 4");
        check_edit("[data]\r\nworkers = 2 # zwei\r\n", &workers, "[data]\r\nworkers = 4 # zwei\r\n");
        check_edit("\u{feff}[data]\nworkers = 2\n", &workers, "\u{feff}[data]\nworkers = 4\n");
    }

    #[test]
    fn absent_keys_are_added_to_their_section() {
        let workers = [("data.workers", 4)];
        check_edit(
            "[data]\nseq_len = 64\n\n# next\n[train]\n",
            &workers,
            "[data]\nseq_len = 64\nworkers = 4\n\n# next\n[train]\n",
        );
        check_edit("[train]\nsteps = 5\n", &workers, "[train]\nsteps = 5\n\n[data]\nworkers = 4\n");
        check_edit("", &workers, "[data]\nworkers = 4\n");
        check_edit(
            "[data.x]\ny = 1\n",
            &[("data.prefetch_batches", 1)],
            "[data]\nprefetch_batches = 1\n[data.x]\ny = 1\n",
        );
    }

    #[test]
    fn dotted_and_inline_tables_are_tables() {
        let workers = [("data.workers", 4)];
        check_edit("data.workers = 2 # two\nseed = 1\n", &workers, "data.workers = 4 # two\nseed = 1\n");
        check_edit("data.seq_len = 64\nseed = 1\n", &workers, "data.seq_len = 64\ndata.workers = 4\nseed = 1\n");
        check_edit("data = { workers = 2, width = 64 }\n", &workers, "data = { workers = 4, width = 64 }\n");
        check_edit("data = { width = 64 }\n", &workers, "data = { width = 64, workers = 4 }\n");
    }

    #[test]
    fn unsupported_tables_are_refused() {
        for wrong in ["data = 5\n", "[data\n", "[[data]]\nworkers = 1\n"] {
            assert!(edited(wrong, &[("data.workers", 4)]).is_err(), "{wrong}");
        }
    }
    #[test]
    fn the_owner_of_a_file_is_kept() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("run.toml");
        output_file::put(&path, "[data]\nworkers = 2\n").expect("it is ours");
        if chown(&path, Some(1234), Some(1235)).is_err() {
            return testkit::skip("owner of a tuned file: only root gives files away");
        }
        ConfigFile::open(&path).expect("TOML").write(&[("data.workers", 4)]).expect("writable");
        let found = path.metadata().expect("there");
        assert_eq!((found.uid(), found.gid()), (1234, 1235));
        assert_eq!(std::fs::read_to_string(&path).expect("text"), "[data]\nworkers = 4\n");
    }
}

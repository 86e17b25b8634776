//! From files and `--set` to one table that remembers where each key was written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use toml::de::DeTable;
use toml::{Table, Value};

use super::mistake::Mistake;

/// How deep `extends` may go: a chain longer than this is a circle.
const PARENTS_MAX: usize = 8;

/// How deep the path of a `--set` may go: no section goes half as deep, and each table of a path is one in another.
const KEYS_MAX: usize = 16;

/// How many brackets may be open in a text: no value of a configuration is nested a tenth as deep. The parser of TOML bounds
/// itself, but not while it looks for a way on after a mistake, and its stack is then the program's.
const BRACKETS_MAX: usize = 64;

/// The merged table and the place of every key in it.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) table: Table,
    /// Dotted key → `file:line` or `--set`.
    places: BTreeMap<String, String>,
    /// Dotted keys of tables.
    tables: BTreeSet<String>,
    /// The file that the user named.
    file: PathBuf,
}

impl Source {
    /// Reads `file`, its parents (`extends`, relative to the file that says it) and the overrides `path=value`.
    pub(crate) fn read(file: &Path, overrides: &[String]) -> anyhow::Result<Self> {
        let mut source = Self { file: file.to_owned(), ..Self::default() };
        for file in lineage(file)? {
            source.add_file(&file)?;
        }
        source.table.remove("extends");
        for assignment in overrides {
            source.set(assignment)?;
        }
        Ok(source)
    }

    /// Where `key` (dotted) was written, or the nearest table around it.
    pub(crate) fn place(&self, key: &str) -> String {
        let mut path = key;
        loop {
            if let Some(place) = self.places.get(path) {
                return format!("{place}, {}", self.display_key(key));
            }
            match path.rfind('.') {
                Some(end) => path = &path[..end],
                None => return format!("{}, {}", self.file.display(), self.display_key(key)),
            }
        }
    }

    /// A key as a reader of TOML looks for it: `[a.b]` for a table, `` [a], `b` `` for a value in it.
    fn display_key(&self, key: &str) -> String {
        match key.rsplit_once('.') {
            Some((table, leaf)) if !self.tables.contains(key) => format!("[{table}], `{leaf}`"),
            _ => format!("[{key}]"),
        }
    }

    /// A problem, with the place of its key.
    pub(crate) fn locate(&self, problem: schemas::Problem) -> Mistake {
        Mistake { place: self.place(&problem.key), message: problem.message, hint: problem.hint }
    }

    /// A mistake about the key at `path`.
    pub(crate) fn mistake(&self, path: &str, message: impl Into<String>) -> Mistake {
        Mistake::new(self.place(path), message)
    }

    fn add_file(&mut self, file: &Path) -> anyhow::Result<()> {
        let text = read(file)?;
        let table = parse(file, &text)?;
        let mut places = Vec::new();
        collect_places(&table, "", &mut places);
        for (path, offset, is_table) in places {
            if is_table {
                self.tables.insert(path.clone());
            }
            let line = text[..offset].matches('\n').count() + 1;
            self.places.insert(path, format!("{}:{line}", file.display()));
        }
        let plain: Table = toml::from_str(&text).with_context(|| file.display().to_string())?;
        merge(&mut self.table, plain, 0);
        Ok(())
    }

    fn set(&mut self, assignment: &str) -> anyhow::Result<()> {
        let (path, text) = assignment
            .split_once('=')
            .with_context(|| format!("--set {assignment}: expected `path=value`, like `train.steps=100`"))?;
        let value = parse_value(text.trim());
        let mut keys: Vec<&str> = path.trim().split('.').collect();
        anyhow::ensure!(keys.len() <= KEYS_MAX, "--set {assignment}: no key has more than {KEYS_MAX} names");
        let last = keys.pop().filter(|key| !key.is_empty()).with_context(|| format!("--set {assignment}: no key"))?;
        let mut table = &mut self.table;
        for key in keys {
            let entry = table.entry(key).or_insert_with(|| Value::Table(Table::new()));
            table = entry.as_table_mut().with_context(|| format!("--set {assignment}: `{key}` is not a table"))?;
        }
        table.insert(last.to_owned(), value);
        self.places.insert(path.trim().to_owned(), format!("--set {assignment}"));
        Ok(())
    }
}

/// The files to merge: the oldest ancestor first.
fn lineage(file: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = vec![file.to_owned()];
    loop {
        let youngest_unread = files.last().expect("it begins with one").clone();
        let table = toml::from_str::<Table>(&read(&youngest_unread)?);
        // A syntax error is reported once, with its line, by `add_file`.
        let Some(parent) = table.ok().and_then(|table| table.get("extends").cloned()) else { break };
        let parent = parent.as_str().with_context(|| {
            format!("{}: `extends` names one file, like `extends = \"mlm-base.toml\"`", youngest_unread.display())
        })?;
        files.push(youngest_unread.parent().unwrap_or(Path::new("")).join(parent));
        anyhow::ensure!(files.len() <= PARENTS_MAX, "{}: `extends` goes in a circle", file.display());
    }
    files.reverse();
    Ok(files)
}

fn read(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file);
    let text = text.with_context(|| format!("cannot read the configuration {}", file.display()))?;
    anyhow::ensure!(!is_deep(&text), "{}: more than {BRACKETS_MAX} brackets are open at a time", file.display());
    Ok(text)
}

/// Whether too many brackets are open at some place; those of strings and comments count, and are few.
fn is_deep(text: &str) -> bool {
    let mut open = 0_usize;
    text.bytes().any(|byte| {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        open > BRACKETS_MAX
    })
}

/// Parses with positions; a syntax error carries `file:line:column` and the line itself.
fn parse<'a>(file: &Path, text: &'a str) -> anyhow::Result<DeTable<'a>> {
    match DeTable::parse(text) {
        Ok(table) => Ok(table.into_inner()),
        Err(error) => {
            let offset = error.span().map_or(0, |span| span.start);
            let line = text[..offset].matches('\n').count() + 1;
            anyhow::bail!("{}:{line}: {}", file.display(), error.to_string().trim_end())
        }
    }
}

fn collect_places(table: &DeTable<'_>, prefix: &str, places: &mut Vec<(String, usize, bool)>) {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.get_ref().to_string() } else { format!("{prefix}.{}", key.get_ref()) };
        let inner = value.get_ref().as_table();
        places.push((path.clone(), key.span().start, inner.is_some()));
        if let Some(inner) = inner {
            collect_places(inner, &path, places);
        }
    }
}

/// Tables merge key by key. Two things are replaced whole: `[loss]`, since an equation is not patched, and a component
/// that changes its `kind`, since the old kind's keys mean nothing to the new one.
pub(crate) fn merge(base: &mut Table, over: Table, depth: usize) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(old)), Value::Table(new))
                if !(depth == 0 && key == "loss")
                    && (new.get("kind").is_none() || new.get("kind") == old.get("kind")) =>
            {
                merge(old, new, depth + 1);
            }
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// A TOML value, or else the text itself: `--set run.folder=runs/a` needs no quotes.
fn parse_value(text: &str) -> Value {
    if is_deep(text) {
        return Value::String(text.to_owned());
    }
    let wrapped = format!("v = {text}");
    let parsed = toml::from_str::<Table>(&wrapped).ok().and_then(|mut table| table.remove("v"));
    parsed.unwrap_or_else(|| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        toml::from_str(text).expect("the test writes TOML")
    }

    #[test]
    fn a_child_patches_tables_but_not_the_equation() {
        let mut base =
            table("[train]\nsteps = 1\nthreads = 2\n[loss]\nmlm = 1.0\n[views.a]\nkind = 'mask'\nrate = 0.2");
        merge(&mut base, table("[train]\nsteps = 5\n[loss]\ntc = 1.0\n[views.a]\nkind = 'window'"), 0);
        assert_eq!(base, table("[train]\nsteps = 5\nthreads = 2\n[loss]\ntc = 1.0\n[views.a]\nkind = 'window'"));
    }

    #[test]
    fn an_override_is_toml_or_else_text() {
        assert_eq!(parse_value("1e-4"), Value::Float(1e-4));
        assert_eq!(parse_value("[1, 2]"), Value::Array(vec![Value::Integer(1), Value::Integer(2)]));
        assert_eq!(parse_value("runs/a b"), Value::String("runs/a b".into()));
        let error = Source::default().set(&format!("{}=1", "a.".repeat(10_000))).expect_err("too deep");
        assert!(error.to_string().contains("no key has more than 16 names"));
    }

    #[test]
    fn every_key_knows_its_line() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let folder = store::Store::folder(home.path()).expect("there");
        folder.put("base.toml", b"seed = 1\n[train]\nsteps = 1\n").expect("written");
        folder.put("child.toml", b"extends = \"base.toml\"\n\n[train]\nthreads = 2\n").expect("written");
        let child = home.path().join("child.toml");
        let source = Source::read(&child, &["train.rows = 3".into()]).expect("all is well");
        assert!(
            source.place("train.steps").ends_with("base.toml:3, [train], `steps`"),
            "{}",
            source.place("train.steps")
        );
        assert!(source.place("train.threads").ends_with("child.toml:4, [train], `threads`"));
        assert_eq!(source.place("train.rows"), "--set train.rows = 3, [train], `rows`");
        assert!(source.place("train.absent").ends_with("child.toml:3, [train], `absent`"));
    }
}

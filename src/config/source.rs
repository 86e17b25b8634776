//! Reading of configuration files and `--set` to one table with the place of each key.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::mistake::Mistake;

/// Maximum number of files in a chain of `extends`.
const PARENTS_MAX: usize = 8;

/// Maximum number of names in the path of a `--set`. Keys of sections have less than half as many. Bounds nested
/// tables.
const KEYS_MAX: usize = 16;

/// Maximum number of open brackets in a text; values of a configuration are nested less than a tenth as deep. The TOML
/// parser limits its depth, but not in its recovery after a syntax error, which could overflow the stack.
const BRACKETS_MAX: usize = 64;
/// Maximum size of a configuration file.
const BYTES_MAX: u64 = 16 << 20;

/// Merged table with the place of every key.
#[derive(Debug, Default)]
pub struct ConfigSource {
    /// The merged table.
    pub table: Table,
    /// Dotted key → `file:line` or `--set`.
    places: BTreeMap<String, String>,
    /// Dotted keys of tables.
    tables: BTreeSet<String>,
    /// File that the user named.
    file: PathBuf,
}

impl ConfigSource {
    /// Reads `file`, the files that it `extends` (relative to the extending file) and the overrides `path=value`.
    ///
    /// # Errors
    /// Fails if no table can be read: a file is missing, is no TOML, or its chain of `extends` has a cycle. Mistakes in
    /// overrides are returned with the table, so that they are reported with all others.
    pub fn read(file: &Path, overrides: &[String]) -> Result<(Self, Vec<Mistake>), Mistake> {
        let mut source = Self { file: file.to_owned(), ..Self::default() };
        for (file, text) in lineage(file)? {
            source.add_file(&file, &text)?;
        }
        source.table.remove("extends");
        let mistakes = overrides.iter().filter_map(|assignment| source.set(assignment).err()).collect();
        Ok((source, mistakes))
    }

    /// Whether `key` (dotted) is written in a file or as an override.
    pub(crate) fn says(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    /// Whether `key` (dotted) is written as an override.
    pub(crate) fn is_override(&self, key: &str) -> bool {
        self.places.get(key).is_some_and(|place| place.starts_with("--set "))
    }

    /// Place of `key` (dotted), or of the nearest table that contains it.
    pub(crate) fn place(&self, key: &str) -> String {
        let mut path = key;
        loop {
            if let Some(place) = self.places.get(path) {
                return format!("{place}, {}", self.display_key(key));
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = &path[..end],
                None => return format!("{}, {}", self.file.display(), self.display_key(key)),
            }
        }
    }

    /// Formats a key in the style of TOML: `[a.b]` for a table, `` [a], `b` `` for a value in it.
    fn display_key(&self, key: &str) -> String {
        match key.rsplit_once('.') {
            Some((table, leaf)) if !self.tables.contains(key) => format!("[{table}], `{leaf}`"),
            _ => format!("[{key}]"),
        }
    }

    /// Converts a problem to a mistake with the place of its key.
    pub(crate) fn locate(&self, problem: schemas::Problem) -> Mistake {
        Mistake { place: self.place(&problem.key), message: problem.message, hint: problem.hint }
    }

    /// Creates a mistake about the key at `path`.
    pub(crate) fn mistake(&self, path: &str, message: impl Into<String>) -> Mistake {
        Mistake::new(self.place(path), message)
    }

    fn add_file(&mut self, file: &Path, text: &str) -> Result<(), Mistake> {
        let table = parse(file, text)?;
        let mut places = Vec::new();
        collect_places(&table, "", &mut places);
        for place in &places {
            forget_elements(&mut self.places, &place.path);
        }
        let lines = LineStarts::new(text);
        for KeyPlace { path, offset, is_table } in places {
            if is_table {
                self.tables.insert(path.clone());
            }
            self.places.insert(path, format!("{}:{}", file.display(), lines.line(offset)));
        }
        // A text that parses with positions also parses without.
        let plain: Table = toml::from_str(text).map_err(|error| unreadable(file, &error))?;
        merge(&mut self.table, plain, 0);
        Ok(())
    }

    fn set(&mut self, assignment: &str) -> Result<(), Mistake> {
        let public = without_secrets(assignment);
        let wrong = |message: String| Mistake::new(format!("--set {public}"), message);
        let (path, text) = assignment.split_once('=').ok_or_else(|| {
            wrong("an override needs a key and a value".to_owned()).hint("write `--set train.steps=100`")
        })?;
        let keys: Vec<&str> = path.trim().split('.').collect();
        if keys.iter().any(|key| key.trim().is_empty()) {
            let hint = "separate the names by single dots: `--set train.steps=100`";
            return Err(wrong(format!("`{}` has an empty name", path.trim())).hint(hint));
        }
        if keys.len() > KEYS_MAX {
            return Err(wrong(format!("no key has more than {KEYS_MAX} dotted names")));
        }
        let value = parse_value(text.trim()).map_err(wrong)?;
        let (last, sections) = keys.split_last().expect("a split has a part");
        let mut table = &mut self.table;
        for key in sections {
            let entry = table.entry(*key).or_insert_with(|| Value::Table(Table::new()));
            let Value::Table(inner) = entry else { return Err(wrong(format!("`{key}` is not a table"))) };
            table = inner;
        }
        // An alert key may contain a secret by mistake; the value must not appear in a log.
        let shown = if path.trim().starts_with("alerts") { path.trim() } else { &*public };
        note(&mut self.places, path.trim(), &value, &format!("--set {shown}"));
        table.insert((*last).to_owned(), value);
        Ok(())
    }
}

/// Records the place of a value and of all values in it.
fn note(places: &mut BTreeMap<String, String>, path: &str, value: &Value, place: &str) {
    forget_elements(places, path);
    places.insert(path.to_owned(), place.to_owned());
    for (key, inner) in value.as_table().into_iter().flatten() {
        note(places, &format!("{path}.{key}"), inner, place);
    }
}

/// Removes the places of the elements of a list, which another list replaces.
fn forget_elements(places: &mut BTreeMap<String, String>, path: &str) {
    let first = format!("{path}[");
    let elements = places.range(first.clone()..).map(|(key, _)| key).take_while(|key| key.starts_with(&first));
    for element in elements.cloned().collect::<Vec<_>>() {
        places.remove(&element);
    }
}

/// Returns the files to merge with their text: the most distant ancestor first.
fn lineage(file: &Path) -> Result<Vec<(PathBuf, String)>, Mistake> {
    let mut files: Vec<(PathBuf, String)> = Vec::new();
    let mut next = Some(file.to_owned());
    while let Some(file) = next {
        let place = |files: &[(PathBuf, String)]| {
            files.last().map_or_else(|| "--config".to_owned(), |(child, _)| format!("{}, `extends`", child.display()))
        };
        if files.len() == PARENTS_MAX {
            let message = format!("more than {PARENTS_MAX} files extend one another");
            return Err(Mistake::new(place(&files), message).hint("merge some of these files"));
        }
        let text = read(&file).map_err(|message| {
            let mistake = Mistake::new(place(&files), message);
            let is_missing = files.is_empty() && !file.exists();
            if is_missing {
                mistake.hint("name a file with `--config`; `cloze init CORPUS` writes one")
            } else {
                mistake
            }
        })?;
        if let Some(at) = files.iter().position(|(known, _)| is_same(known, &file)) {
            let cycle: Vec<String> = files[at..].iter().map(|(file, _)| file.display().to_string()).collect();
            let message = format!("`extends` has a cycle: {} and back", cycle.join(" → "));
            return Err(Mistake::new(place(&files), message).hint("remove `extends` from one of them"));
        }
        // A syntax error is reported once, with its line, by `add_file`.
        let table = toml::from_str::<Table>(&text).unwrap_or_default();
        next = match table.get("extends") {
            None => None,
            Some(Value::String(parent)) => Some(file.parent().unwrap_or(Path::new("")).join(parent)),
            Some(_) => {
                let mistake = Mistake::new(format!("{}, `extends`", file.display()), "`extends` must be one path");
                return Err(mistake.hint("write `extends = \"mlm-base.toml\"`"));
            }
        };
        files.push((file, text));
    }
    files.reverse();
    Ok(files)
}

/// Whether two paths or URLs are the same file or folder, which can be read.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    one == other || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Reads a configuration from an object store, such as that of a run.
fn read_object(url: &Path) -> std::io::Result<String> {
    let name = url.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let store = remote_store::existing_path(url.parent().unwrap_or(url))?;
    let Some(stat) = store.head(name)? else { return Err(std::io::ErrorKind::NotFound.into()) };
    let text = store.get_range(name, 0..stat.bytes.min(BYTES_MAX + 1))?;
    String::from_utf8(text).map_err(std::io::Error::other)
}

fn read(file: &Path) -> Result<String, String> {
    // A configuration may be a pipe, but not a device without an end.
    let text = if remote_store::is_url_path(file) {
        read_object(file)
    } else {
        File::open(file).and_then(|opened| {
            let mut text = String::new();
            opened.take(BYTES_MAX + 1).read_to_string(&mut text)?;
            Ok(text)
        })
    };
    let text = text.map_err(|error| format!("cannot read the configuration {}: {error}", file.display()))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(format!("{}: more than {} MiB are no configuration", file.display(), BYTES_MAX >> 20));
    }
    if is_deep(&text) {
        return Err(format!("{}: more than {BRACKETS_MAX} brackets are open at a time", file.display()));
    }
    Ok(text)
}

/// Offsets of the lines of a text. A file may have a million keys, so its text is searched once.
struct LineStarts(Vec<usize>);

impl LineStarts {
    fn new(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(end, _)| end + 1).collect())
    }

    /// Returns the line, from 1 on, of an offset.
    fn line(&self, offset: usize) -> usize {
        self.0.partition_point(|&start| start <= offset) + 1
    }
}

fn unreadable(file: &Path, error: &toml::de::Error) -> Mistake {
    Mistake::new(file.display().to_string(), error.to_string().trim_end())
}

/// Whether too many brackets are open at one point. Brackets in strings and comments are counted too; they are rare.
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

/// Parses a file with positions. A syntax error has `file:line` and the text of the line.
fn parse<'a>(file: &Path, text: &'a str) -> Result<DeTable<'a>, Mistake> {
    DeTable::parse(text).map(toml::Spanned::into_inner).map_err(|error| {
        let line = LineStarts::new(text).line(error.span().map_or(0, |span| span.start));
        Mistake { place: format!("{}:{line}", file.display()), ..unreadable(file, &error) }
    })
}

/// Place of a key in a file.
struct KeyPlace {
    /// Dotted key.
    path: String,
    /// Offset in the file, in bytes.
    offset: usize,
    /// Whether its value is a table.
    is_table: bool,
}

fn collect_places(table: &DeTable<'_>, prefix: &str, places: &mut Vec<KeyPlace>) {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.get_ref().to_string() } else { format!("{prefix}.{}", key.get_ref()) };
        collect_value(value.get_ref(), &path, key.span().start, places);
    }
}

/// Collects the places of a value and of all values in it.
fn collect_value(value: &DeValue<'_>, path: &str, offset: usize, places: &mut Vec<KeyPlace>) {
    places.push(KeyPlace { path: path.to_owned(), offset, is_table: value.is_table() });
    match value {
        DeValue::Table(table) => collect_places(table, path, places),
        DeValue::Array(list) => {
            for (index, element) in list.iter().enumerate() {
                collect_value(element.get_ref(), &format!("{path}[{index}]"), element.span().start, places);
            }
        }
        _ => {}
    }
}

/// Merges tables key by key. Two kinds of tables are replaced as a whole: `[loss]`, because the weights belong
/// together, and a component with another `kind`, because keys of the old kind do not apply.
pub fn merge(base: &mut Table, over: Table, depth: usize) {
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

/// Parses a TOML value. Other text is a string, so that `--set run.folder=runs/a` needs no quotes.
fn parse_value(text: &str) -> Result<Value, String> {
    let plain = || Value::String(text.to_owned());
    if is_deep(text) {
        return Ok(plain());
    }
    let Ok(mut table) = toml::from_str::<Table>(&format!("v = {text}")) else { return Ok(plain()) };
    let value = table.remove("v").unwrap_or_else(plain);
    // Further lines would be parsed as more keys, and be ignored silently.
    if table.is_empty() {
        Ok(value)
    } else {
        Err("there is more text after the line break that ends the value".to_owned())
    }
}

/// Returns an assignment without what may hold a secret in its URLs.
fn without_secrets(assignment: &str) -> String {
    let ends = |character: char| matches!(character, '"' | '\'' | '[' | ']' | ' ');
    let words = assignment.split_inclusive(ends).map(|piece| {
        let word = piece.trim_end_matches(ends);
        let end = &piece[word.len()..];
        // In `key=URL`, the URL begins after the first `=`.
        let start = word.find("://").and_then(|scheme| word[..scheme].rfind('=')).map_or(0, |equals| equals + 1);
        format!("{}{}{end}", &word[..start], remote_store::without_secrets(&word[start..]))
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        toml::from_str(text).expect("the test writes TOML")
    }

    #[test]
    fn a_table_in_an_override_sets_each_of_its_keys() {
        let home = tempfile::tempdir().expect("a temporary folder");
        store::Store::folder(home.path())
            .and_then(|store| store.put("run.toml", b"[data]\nfolder = \"a\""))
            .expect("written");
        let (source, _) = ConfigSource::read(
            &home.path().join("run.toml"),
            &["data={folder = \"b\", workers = 2}".to_owned(), "views={v={kind=\"crop\"}}".to_owned()],
        )
        .expect("a table");
        for key in ["data", "data.folder", "data.workers", "views.v.kind"] {
            assert!(source.says(key), "{key}");
        }
        assert!(!source.says("data.prefetch_batches"));
        assert!(source.place("data.workers").starts_with("--set data="), "{}", source.place("data.workers"));
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
        assert_eq!(parse_value("1e-4"), Ok(Value::Float(1e-4)));
        assert_eq!(parse_value("[1,\n2]"), Ok(Value::Array(vec![Value::Integer(1), Value::Integer(2)])));
        assert_eq!(parse_value("runs/a b"), Ok(Value::String("runs/a b".into())));
    }

    #[test]
    fn an_invalid_override_is_refused_with_its_place() {
        let cases = [
            (format!("{}a=1", "a.".repeat(10_000)), "no key has more than 16 dotted names"),
            ("train..steps=5".to_owned(), "`train..steps` has an empty name"),
            ("=5".to_owned(), "`` has an empty name"),
            ("train.steps".to_owned(), "a key and a value"),
            ("seed=1\nsteps = 2".to_owned(), "more text after the line break"),
            ("seed.low=1".to_owned(), "`seed` is not a table"),
        ];
        for (assignment, expected) in cases {
            let mut source = ConfigSource::default();
            source.table.insert("seed".to_owned(), Value::Integer(1));
            let before = source.table.clone();
            let mistake = source.set(&assignment).expect_err(expected);
            assert!(mistake.message.contains(expected), "{mistake}");
            assert_eq!(mistake.place, format!("--set {assignment}"));
            assert_eq!(source.table, before);
        }
    }

    #[test]
    fn cycles_of_parents_are_distinguished_from_too_many() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let folder = store::Store::folder(home.path()).expect("there");
        for number in 0..12 {
            let text = format!("extends = \"{}.toml\"\n", number + 1);
            folder.put(&format!("{number}.toml"), text.as_bytes()).expect("written");
        }
        folder.put("a.toml", b"extends = \"./b.toml\"\n").expect("written");
        folder.put("b.toml", b"extends = \"a.toml\"\n").expect("written");
        let refused = |name: &str| ConfigSource::read(&home.path().join(name), &[]).expect_err("refused").to_string();
        assert!(refused("0.toml").contains("more than 8 files extend one another"), "{}", refused("0.toml"));
        let cycle = refused("a.toml");
        assert!(cycle.contains("has a cycle") && cycle.contains("a.toml → ") && cycle.contains("b.toml and back"));
        assert!(refused("absent.toml").contains("absent.toml: No such file"));
    }

    #[test]
    fn places_show_no_secrets_of_urls() {
        for (assignment, shown) in [
            ("a=https://u:SECRET@host/x?sig=SECRET", "a=https://host/x"),
            ("a = [\"s3://k:SECRET@b/x\", 'http://h/y?SECRET,SECRET']", "a = [\"s3://b/x\", 'http://h/y']"),
            ("a = \"s3://bucket/x=1/*.txt\"", "a = \"s3://bucket/x=1/*.txt\""),
            ("train.rows = 3", "train.rows = 3"),
        ] {
            assert_eq!(without_secrets(assignment), shown);
        }
    }

    #[test]
    fn every_key_has_its_line() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let folder = store::Store::folder(home.path()).expect("there");
        folder.put("base.toml", b"seed = 1\n[train]\nsteps = 1\n").expect("written");
        folder.put("child.toml", b"extends = \"base.toml\"\n\n[train]\nthreads = 2\n").expect("written");
        let child = home.path().join("child.toml");
        let (source, mistakes) = ConfigSource::read(&child, &["train.rows = 3".into()]).expect("all is well");
        assert_eq!(mistakes, []);
        assert!(source.says("train.rows") && source.says("seed") && !source.says("train.workers"));
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

//! Discovery of input files: expands files, folders and globs, and records skipped paths.
//!
//! A link is followed, once: a file found by its own path is not found again by the path of a link. A path that is
//! neither file nor folder (a pipe, a device) is refused if it is named, and skipped if it is in a folder. Opening it
//! might block or never end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, FileType, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use store::Stat;

use super::compression::without_compression;
use super::hidden_names::{
    ICEBERG, UNDERSCORE, has_underscore, iceberg_folders, is_hidden, is_iceberg_metadata, names_underscores,
};
use super::object::StoredObject;
use super::object_inputs::{self, ObjectListing, Purpose};
use super::own_folders::{is_below, is_own};
use crate::{Error, Result};

/// Discovered files.
#[derive(Debug, Default)]
pub(super) struct DiscoveredFiles {
    /// Files by path, objects by URL.
    pub(super) paths: BTreeMap<PathBuf, DiscoveredFile>,
    pub(super) passed: SkippedFiles,
}

/// File on a file system, or object of a store.
#[derive(Debug)]
pub(super) struct DiscoveredFile {
    /// Number of last path components that form its name.
    pub(super) components: usize,
    /// The object and its metadata; `None` for a file.
    pub(super) object: Option<(StoredObject, Stat)>,
}

/// Skipped paths: a count and one example per kind. Names that begin with `.` are not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkippedFiles(BTreeMap<String, (u64, PathBuf)>);

impl SkippedFiles {
    fn note(&mut self, kind: impl Into<String>, path: &Path) {
        self.0.entry(kind.into()).or_insert_with(|| (0, path.to_owned())).0 += 1;
    }

    /// Returns a summary of the most frequent kinds; `None` if no path was skipped.
    #[must_use]
    pub fn description(&self) -> Option<String> {
        const KINDS: usize = 5;
        let total: u64 = self.0.values().map(|(count, _)| count).sum();
        let mut kinds: Vec<_> = self.0.iter().collect();
        kinds.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        let rest: u64 = kinds.iter().skip(KINDS).map(|(_, (count, _))| count).sum();
        let parts = kinds.iter().take(KINDS).map(|(kind, (count, path))| {
            let path = path.display().to_string();
            format!("{count} {kind} ({})", path.escape_debug())
        });
        let mut parts: Vec<String> = parts.collect();
        if rest > 0 {
            parts.push(format!("{rest} of other kinds"));
        }
        (total > 0).then(|| format!("{total} skipped in `prepare.inputs`: {}", parts.join(", ")))
    }

    /// Returns how the skipped files can be read.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        let has = |extensions: &[&str]| extensions.iter().any(|one| self.0.contains_key(&format!("`*.{one}`")));
        if ["a pipe", "a socket", "a device"].iter().any(|kind| self.0.contains_key(*kind)) {
            "a pipe, a socket or a device may never end: copy its content to a file"
        } else if has(&["lzma", "br", "lzo", "z", "sz"]) {
            "decompress them, or compress them as `.gz` or `.zst`"
        } else if has(&["zip", "tar", "tgz", "7z", "rar"]) {
            "unpack the archives and name the folder"
        } else if has(&["csv", "tsv", "arrow", "feather", "ipc", "warc", "wet", "xml", "parquet"]) {
            "set `prepare.format` to the format of these files, or leave it out"
        } else if has(&["orc", "avro", "xlsx"]) {
            "convert the tables to Parquet or JSONL"
        } else if self.0.contains_key(UNDERSCORE) {
            "to read a name that begins with `_`, name it"
        } else {
            "to read files of another extension, name them or use a glob"
        }
    }
}

pub(super) fn unusable(path: impl Into<PathBuf>, message: impl Into<String>) -> Error {
    Error::Corpus { path: path.into(), line: None, message: message.into() }
}

/// Finds the files that `inputs` name. In folders only wanted files count; a file or glob that names one exactly is
/// always taken.
pub(super) fn walk(inputs: &[String], wanted: FileFilter<'_>) -> Result<DiscoveredFiles> {
    let mut walked = DiscoveredFiles::default();
    for input in inputs {
        let mut walk =
            FolderWalk { filter: wanted, folders: BTreeSet::new(), found: BTreeMap::new(), passed: &mut walked.passed };
        if remote_store::is_url(input) {
            walk.objects(input)?;
        } else {
            walk.files(input)?;
        }
        let found = walk.found;
        if found.is_empty() {
            let hint = walked.passed.hint();
            let skipped = walked.passed.description().map_or(String::new(), |skipped| format!("; {skipped}; {hint}"));
            let brackets = "; `[` begins a set of characters in a glob: write `[[]` for a bracket of a name";
            let hint_of_glob = if input.contains('[') { brackets } else { "" };
            let extensions = wanted.extensions.join(", *.");
            return Err(unusable(input, format!("no input here; looked for *.{extensions}{skipped}{hint_of_glob}")));
        }
        for (path, found) in found {
            let components = found.components;
            let known = walked.paths.entry(path).or_insert(found);
            known.components = components.max(known.components);
        }
    }
    walked.follow_once()?;
    Ok(walked)
}

impl DiscoveredFiles {
    /// Removes links to files that are also found by their own path.
    fn follow_once(&mut self) -> Result<()> {
        let mut places = BTreeMap::<(u64, u64), Vec<PathBuf>>::new();
        for (path, _) in self.paths.iter().filter(|(_, found)| found.object.is_none()) {
            let metadata = fs::metadata(path).map_err(|error| unusable(path, error.to_string()))?;
            places.entry((metadata.dev(), metadata.ino())).or_default().push(path.clone());
        }
        for same in places.into_values().filter(|same| same.len() > 1) {
            // Two hard links are two copies of a text.
            let mut own = BTreeMap::<PathBuf, Vec<PathBuf>>::new();
            for path in same {
                let canonical = path.canonicalize().map_err(|error| unusable(&path, error.to_string()))?;
                own.entry(canonical).or_default().push(path);
            }
            for (canonical, mut paths) in own {
                paths.sort_by_key(|path| (*path != canonical, path.clone()));
                for path in &paths[1..] {
                    self.paths.remove(path);
                    self.passed.note("symbolic links to files that are listed by their own path", path);
                }
            }
        }
        Ok(())
    }
}

/// Filter for files in folders.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileFilter<'a> {
    /// Accepted extensions, before the extension of a compression.
    pub(super) extensions: &'a [&'a str],
    /// Maximum number of files per input, in order of discovery.
    pub(super) most: usize,
    /// Use of the listing of a store.
    pub(super) purpose: Purpose,
}

impl<'a> FileFilter<'a> {
    /// Returns a filter for all files of a corpus with these extensions.
    pub(super) fn new(extensions: &'a [&'a str]) -> Self {
        Self { extensions, most: usize::MAX, purpose: Purpose::Corpus }
    }
}

/// Kind of the skipped folders that `cloze` wrote.
const OWN: &str = "folders that `cloze` wrote";

struct FolderWalk<'a> {
    filter: FileFilter<'a>,
    /// Visited folders, by their own paths.
    folders: BTreeSet<PathBuf>,
    found: BTreeMap<PathBuf, DiscoveredFile>,
    passed: &'a mut SkippedFiles,
}

impl FolderWalk<'_> {
    /// Finds the files of one input.
    fn files(&mut self, input: &str) -> Result<()> {
        let base = self.expand(input)?;
        for (path, found) in &mut self.found {
            found.components = path.strip_prefix(&base).map_or(1, |name| name.components().count()).max(1);
        }
        Ok(())
    }

    /// Finds the objects of a URL.
    fn objects(&mut self, input: &str) -> Result<()> {
        let listing = object_inputs::find(input, self.filter.purpose)?;
        let ObjectListing { store, entries, own, is_exact } = &*listing;
        for folder in own {
            self.passed.note(OWN, Path::new(&store.place(folder)));
        }
        let metadata =
            if *is_exact { BTreeSet::new() } else { iceberg_folders(entries.iter().map(|entry| &*entry.name)) };
        for folder in &metadata {
            self.passed.note(ICEBERG, Path::new(&store.place(folder)));
        }
        for entry in entries {
            let name = &entry.name;
            let path = PathBuf::from(store.place(name));
            if !is_exact && (is_below(name, &metadata) || name.split('/').any(|part| self.hides(part, &path))) {
                continue;
            }
            if self.found.len() >= self.filter.most {
                break;
            }
            if *is_exact || self.is_wanted(name, &path) {
                let object = StoredObject::new(store.clone(), name.clone());
                let components = name.split('/').count();
                self.found.insert(path, DiscoveredFile { components, object: Some((object, entry.stat.clone())) });
            }
        }
        Ok(())
    }

    /// Whether a file or a folder with this name is hidden. Records one that begins with `_`.
    fn hides(&mut self, name: &str, path: &Path) -> bool {
        let is_hidden = is_hidden(name);
        if is_hidden && name.starts_with('_') {
            self.passed.note(UNDERSCORE, path);
        }
        is_hidden
    }

    fn add(&mut self, path: PathBuf) {
        self.found.insert(path, DiscoveredFile { components: 1, object: None });
    }

    /// Whether a file of a folder has a wanted extension. Records one that has not.
    fn is_wanted(&mut self, name: &str, path: &Path) -> bool {
        let extension = plain_extension(name.rsplit('/').next().unwrap_or(name));
        if self.filter.extensions.contains(&extension.as_str()) {
            return true;
        }
        if extension.is_empty() {
            self.passed.note("without an extension", path);
        } else {
            self.passed.note(format!("`*.{}`", extension.escape_debug()), path);
        }
        false
    }

    /// Finds the files of one input. Returns the folder that their names are relative to.
    fn expand(&mut self, input: &str) -> Result<PathBuf> {
        if input.is_empty() {
            let message = "an input has an empty name; name a file, a folder or a glob";
            return Err(Error::Config(message.to_owned()));
        }
        let path = Path::new(input);
        let absolute = std::path::absolute(path)?;
        match metadata_of(path)? {
            Some(metadata) if metadata.is_file() => {
                let base = absolute.parent().map(Path::to_path_buf).unwrap_or_default();
                self.add(absolute);
                Ok(base)
            }
            Some(metadata) if metadata.is_dir() => {
                self.folder(path)?;
                Ok(absolute)
            }
            Some(metadata) => {
                let kind = kind(metadata.file_type());
                Err(unusable(
                    input,
                    format!("{kind} cannot be an input, because it may never end; copy its content to a file"),
                ))
            }
            None if input.contains(['*', '?', '[']) => self.glob(input, &absolute),
            None if path.is_symlink() => {
                Err(unusable(input, "a broken symbolic link; correct it, or check `prepare.inputs`"))
            }
            None => Err(unusable(
                input,
                "no such file or folder; paths are relative to the folder that `cloze` is started in",
            )),
        }
    }

    fn glob(&mut self, input: &str, absolute: &Path) -> Result<PathBuf> {
        let options = glob::MatchOptions { require_literal_leading_dot: true, ..Default::default() };
        let matches = glob::glob_with(input, options)
            .map_err(|error| unusable(input, format!("not a glob: {error}; check `prepare.inputs`")))?;
        let base = literal_base(absolute);
        let mut own = BTreeMap::new();
        for path in matches {
            let path = path.map_err(std::io::Error::from)?;
            if self.found.len() >= self.filter.most {
                break;
            }
            if !names_underscores(input) && has_underscore(&std::path::absolute(&path)?, &base) {
                self.passed.note(UNDERSCORE, &path);
                continue;
            }
            match metadata_of(&path)? {
                Some(metadata) if metadata.is_file() => {
                    let path = std::path::absolute(path)?;
                    if !self.is_below_own(&path, &base, &mut own) {
                        self.add(path);
                    }
                }
                Some(metadata) if metadata.is_dir() => self.passed.note("folders that a glob matches", &path),
                other => self.skip(&path, other.as_ref()),
            }
        }
        Ok(base)
    }

    /// Whether a file that a glob matches is below a folder that `cloze` wrote, from the base of the glob down. `known`
    /// keeps the answer for each folder.
    fn is_below_own(&mut self, path: &Path, base: &Path, known: &mut BTreeMap<PathBuf, bool>) -> bool {
        let folders = path.ancestors().skip(1).take_while(|folder| folder.starts_with(base));
        folders.into_iter().any(|folder| {
            *known.entry(folder.to_owned()).or_insert_with(|| {
                let is_own = is_own(|name| folder.join(name).exists());
                if is_own {
                    self.passed.note(OWN, folder);
                }
                is_own
            })
        })
    }

    /// Walks a folder; a folder that contains a link to itself is walked once.
    fn folder(&mut self, folder: &Path) -> Result<()> {
        let at = |error: std::io::Error| unusable(folder, error.to_string());
        if !self.folders.insert(folder.canonicalize().map_err(at)?) {
            return Ok(());
        }
        let mut entries = fs::read_dir(folder).map_err(at)?.collect::<Result<Vec<_>, _>>().map_err(at)?;
        if is_own(|name| entries.iter().any(|entry| entry.file_name() == name)) {
            self.passed.note(OWN, folder);
            return Ok(());
        }
        // Links last: a file in the folder itself gets its own name, not that of a link to it.
        let is_link = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|found| found.is_symlink());
        entries.sort_by_cached_key(|entry| (is_link(entry), entry.file_name()));
        let is_metadata = folder.file_name().is_some_and(|name| name == "metadata");
        if is_metadata && entries.iter().any(|entry| is_iceberg_metadata(&entry.file_name().to_string_lossy())) {
            self.passed.note(ICEBERG, folder);
            return Ok(());
        }
        for path in entries.into_iter().map(|entry| entry.path()) {
            // A name that is not UTF-8 is found too, and refused with its path.
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if self.hides(&name, &path) {
                continue;
            }
            if self.found.len() >= self.filter.most {
                break;
            }
            match metadata_of(&path)? {
                Some(metadata) if metadata.is_dir() => self.folder(&path)?,
                Some(metadata) if metadata.is_file() => {
                    if self.is_wanted(&name, &path) {
                        self.add(std::path::absolute(&path)?);
                    }
                }
                other => self.skip(&path, other.as_ref()),
            }
        }
        Ok(())
    }

    fn skip(&mut self, path: &Path, found: Option<&Metadata>) {
        self.passed
            .note(found.map_or("broken symbolic links".to_owned(), |found| kind(found.file_type()).to_owned()), path);
    }
}

/// Returns the folder before the first part of a glob with a wildcard.
fn literal_base(glob: &Path) -> PathBuf {
    let is_plain = |part: &std::path::Component<'_>| !part.as_os_str().to_string_lossy().contains(['*', '?', '[']);
    glob.components().take_while(is_plain).collect()
}

/// Returns the metadata at the path, following links; `None` if it is absent.
fn metadata_of(path: &Path) -> Result<Option<Metadata>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        // A link to itself counts as dangling.
        Err(_) if path.is_symlink() => Ok(None),
        // A glob contains bytes that no name may have, or is too long for a name.
        Err(error) if error.raw_os_error().is_none() => Ok(None),
        Err(error) => Err(unusable(path, format!("{error}; check `prepare.inputs`"))),
    }
}

fn kind(found: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;
    if found.is_fifo() {
        "a pipe"
    } else if found.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

/// Returns the lower-case extension of a file name without its compression: `jsonl` for `a.JSONL.zst`.
#[must_use]
pub fn plain_extension(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    without_compression(&name).rsplit_once('.').map_or(String::new(), |(_, extension)| extension.to_owned())
}

#[cfg(test)]
mod tests;

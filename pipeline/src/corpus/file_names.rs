//! Names of the files of a corpus.
//!
//! # Definition
//! A file is named by a number of last components of its path, see [`inputs`](super::inputs). A file that a prepared folder
//! knows keeps its name: its path ends with that name. A name that is shorter than its own is kept only if inode, time or
//! version are the recorded ones. If several pairs of files and known names are possible, the most similar ones are chosen: by identity, then
//! by length, then by the length of the name. All other files are newcomers: names that meet are extended by more
//! components until all names differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::discover::{DiscoveredFile, unusable};
use super::file_identity::FileIdentity;
use crate::{Error, Result};

/// File that a prepared folder knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownFile {
    /// Length on disk.
    pub(crate) bytes: u64,
    /// Identity when it was last read. `None` if it is lost.
    pub(crate) identity: Option<FileIdentity>,
}

/// Files that a prepared folder knows, by name.
pub(crate) type KnownFiles = BTreeMap<String, KnownFile>;

/// Name of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileName {
    pub(super) name: String,
    /// Whether the known file of that name may as well be another one.
    pub(super) is_doubtful: bool,
}

/// Similarity of a file with a known one, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Similarity {
    SameIdentity,
    SameInode,
    SameStamp,
    SameLength,
    None,
}

/// Known names that a file may keep, the best one last.
#[derive(Debug)]
struct Claim<'p> {
    path: &'p Path,
    names: Vec<String>,
}

/// Known names that files keep, by name and by path.
#[derive(Default)]
struct KeptNames<'p> {
    claims: BTreeMap<String, Claim<'p>>,
    doubtful: BTreeSet<&'p Path>,
}

/// Returns the name of each file, in order.
pub(super) fn file_names(paths: &BTreeMap<PathBuf, DiscoveredFile>, known: &KnownFiles) -> Result<Vec<FileName>> {
    let kept = KeptNames::choose(paths, known)?;
    let of_path: BTreeMap<&Path, &str> = kept.claims.iter().map(|(name, claim)| (claim.path, name.as_str())).collect();
    let mut components: BTreeMap<&Path, usize> =
        paths.iter().map(|(path, found)| (path.as_path(), found.components)).collect();
    components.extend(of_path.iter().map(|(path, name)| (*path, name.split('/').count())));
    loop {
        let mut takers = BTreeMap::<String, u32>::new();
        for (path, &count) in &components {
            *takers.entry(last_components(path, count)?).or_default() += 1;
        }
        let mut grown = false;
        for (path, count) in components.iter_mut().filter(|(path, _)| !of_path.contains_key(*path)) {
            if takers[&last_components(path, *count)?] > 1 && *count < path.components().count() {
                *count += 1;
                grown = true;
            }
        }
        if !grown {
            break;
        }
    }
    let named = |(path, &count): (&&Path, &usize)| {
        Ok(FileName { name: last_components(path, count)?, is_doubtful: kept.doubtful.contains(path) })
    };
    components.iter().map(named).collect()
}

impl<'p> KeptNames<'p> {
    /// Chooses a file for each known name. A file that loses one name claims its next one.
    fn choose(paths: &'p BTreeMap<PathBuf, DiscoveredFile>, known: &KnownFiles) -> Result<Self> {
        let mut kept = Self::default();
        let mut waiting = Vec::new();
        for (path, found) in paths.iter().filter(|_| !known.is_empty()) {
            waiting.push(Claim { path, names: kept.candidates(path, found, known)? });
        }
        while let Some(mut claim) = waiting.pop() {
            let Some(name) = claim.names.pop() else { continue };
            let Some(holder) = kept.claims.remove(&name) else {
                kept.claims.insert(name, claim);
                continue;
            };
            let similarity_of = |claim: &Claim<'_>| similarity(claim.path, &paths[claim.path], &known[&name]);
            let ours = similarity_of(&claim)?;
            let theirs = similarity_of(&holder)?;
            let is_better = (ours, claim.path) < (theirs, holder.path);
            let (winner, loser) = if is_better { (claim, holder) } else { (holder, claim) };
            if ours == theirs && ours != Similarity::SameIdentity {
                kept.doubtful.extend([winner.path, loser.path]);
            }
            kept.claims.insert(name, winner);
            waiting.push(loser);
        }
        Ok(kept)
    }

    /// Returns the known names that a file may keep, the best one last.
    fn candidates(&mut self, path: &'p Path, found: &DiscoveredFile, known: &KnownFiles) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for count in 1..=path.components().count() {
            let name = last_components(path, count)?;
            let Some(file) = known.get(&name) else { continue };
            if count >= found.components {
                names.push(name);
                continue;
            }
            let similarity = similarity(path, found, file)?;
            let is_lost = file.identity.is_none() && similarity == Similarity::SameLength;
            if is_lost {
                self.doubtful.insert(path);
            }
            if is_lost || similarity <= Similarity::SameStamp {
                names.push(name);
            }
        }
        if names.len() < 2 {
            return Ok(names);
        }
        let ranked = names.into_iter().map(|name| Ok((similarity(path, found, &known[&name])?, name)));
        let mut ranked = ranked.collect::<Result<Vec<_>>>()?;
        // Stable: of equally similar names, the longest stays last.
        ranked.sort_by_key(|(similarity, _)| std::cmp::Reverse(*similarity));
        if let [.., (second, _), (best, _)] = &ranked[..]
            && second == best
            && *best != Similarity::SameIdentity
        {
            self.doubtful.insert(path);
        }
        Ok(ranked.into_iter().map(|(_, name)| name).collect())
    }
}

fn similarity(path: &Path, found: &DiscoveredFile, known: &KnownFile) -> Result<Similarity> {
    let identity = match &found.object {
        Some((_, stat)) => FileIdentity::of_object(stat),
        None => FileIdentity::of_file(&fs::metadata(path).map_err(|error| unusable(path, error.to_string()))?),
    };
    Ok(match &known.identity {
        Some(recorded) if recorded.is_same_file(&identity) => Similarity::SameIdentity,
        Some(recorded) if recorded.is_same_inode(&identity) => Similarity::SameInode,
        Some(recorded) if recorded.has_same_content_stamp(&identity) => Similarity::SameStamp,
        _ if known.bytes == identity.bytes() => Similarity::SameLength,
        _ => Similarity::None,
    })
}

fn last_components(path: &Path, count: usize) -> Result<String> {
    let all: Vec<_> = path.components().collect();
    let last = &all[all.len().saturating_sub(count)..];
    let names: Option<Vec<&str>> = last.iter().map(|part| part.as_os_str().to_str()).collect();
    let refuse = || Error::Config(format!("{}: a name that is not UTF-8; rename it", path.display()));
    let names = names.ok_or_else(refuse)?;
    Ok(names.join("/"))
}

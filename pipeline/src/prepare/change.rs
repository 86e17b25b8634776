//! Comparison of the corpus with the prepared parts, and the part list that follows from it.
//!
//! A file counts as unchanged if it has the same name and length, and one more condition holds. It was not modified
//! since the parts that contain it were listed, or reading it again gives the same content. The timestamps come from
//! the file systems of the corpus and the folder. If these are different machines, their clocks must agree to within
//! the age of the newest file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, SystemTime};

use schemas::{DatasetVersion, PartId};
use store::Store;

use super::commit_record::{FoundPart, PartBinding};
use super::config::Settings;
use super::fingerprints::Fingerprints;
use super::job::ForgottenDocuments;
use super::part_list::{self, PartList, VersionLists};
use super::signatures::SignatureRecord;
use super::verdicts::VerdictDigests;
use crate::corpus::{Corpus, InputFile, Part, Piece, PieceEnd, RecordBuffers, group};
use crate::{Error, Result};

/// Maximum clock difference between two file systems.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(60);

/// Numbers of a new part list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetChange {
    /// Number of the list.
    pub dataset_version: DatasetVersion,
    /// New files.
    pub added: u64,
    /// Files whose content has changed.
    pub replaced: u64,
    /// Removed files.
    pub removed: u64,
    /// Documents to forget.
    pub forgotten: u64,
    /// Dropped parts.
    pub dropped: u64,
    /// New parts.
    pub parts: u64,
    /// First of the dataset versions that contain dropped parts. All later ones up to this list are affected too.
    pub touches: Option<DatasetVersion>,
}

impl fmt::Display for DatasetChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.added, "added"),
            (self.replaced, "replaced"),
            (self.removed, "removed"),
            (self.forgotten, "to forget"),
        ];
        let noun = |number: u64, what: &str| match (number, what) {
            (1, "to forget") => "1 document to forget".to_owned(),
            (_, "to forget") => format!("{number} documents to forget"),
            (1, _) => format!("1 file {what}"),
            _ => format!("{number} files {what}"),
        };
        let said: Vec<String> =
            counts.iter().filter(|(number, _)| *number > 0).map(|&(number, what)| noun(number, what)).collect();
        let parts = |number: u64| if number == 1 { "1 part".to_owned() } else { format!("{number} parts") };
        let said = said.join(", ");
        let dropped = parts(self.dropped);
        let made = parts(self.parts);
        write!(f, "{said}: dataset version {} drops {dropped} and makes {made}", self.dataset_version)?;
        match (self.touches, self.dataset_version.0.checked_sub(1)) {
            (Some(first), Some(last)) if first.0 < last => {
                write!(
                    f,
                    "; runs over dataset versions {first} to {last} that would read dropped parts again are refused"
                )
            }
            (Some(first), _) => {
                write!(f, "; runs over dataset version {first} that would read dropped parts again are refused")
            }
            (None, _) => Ok(()),
        }
    }
}

/// Invalid files, each with the reason.
pub(super) type InvalidFiles = Vec<(String, String)>;

/// Result of comparing a folder with its corpus.
pub(super) struct ComparedCorpus {
    /// Part list that the corpus requires. `None` if nothing has changed.
    pub(super) next: Option<(PartList, DatasetChange)>,
    /// Files that are skipped because they are invalid, each with the reason.
    pub(super) unfit: InvalidFiles,
    /// Files that were modified but have the same content.
    pub(super) fingerprints: Fingerprints,
}

/// Folder and its corpus during a comparison.
pub(super) struct Comparison<'a> {
    pub(super) store: Option<&'a Store>,
    pub(super) lists: &'a VersionLists,
    pub(super) corpus: &'a Corpus,
    pub(super) settings: &'a Settings,
    pub(super) part_bytes: u64,
    pub(super) seed: u64,
}

/// Pieces of a file in parts in effect, each with its part.
type PieceHolders<'a> = Vec<(DatasetVersion, &'a Part, &'a Piece)>;

impl Comparison<'_> {
    /// Computes the part list that the corpus requires.
    pub(super) fn compare(&self) -> Result<ComparedCorpus> {
        let in_effect = self.lists.in_effect();
        let mut known = BTreeMap::<&str, PieceHolders<'_>>::new();
        for &(dataset_version, part) in in_effect.values() {
            for piece in &part.pieces {
                known.entry(&piece.name).or_default().push((dataset_version, part, piece));
            }
        }
        let removed: BTreeSet<&str> = known.keys().copied().filter(|name| self.corpus.file(name).is_none()).collect();
        if !known.is_empty() && removed.len() == known.len() {
            return Err(Error::Config(format!(
                "`prepare.folder` is of other files: none of its {} ({}, …) is among `prepare.inputs`; name another \
                 `prepare.folder`, or its inputs",
                known.len(),
                removed.first().copied().unwrap_or_default()
            )));
        }
        let mut memory = self.memory()?;
        let mut added = BTreeSet::new();
        let mut replaced = BTreeSet::new();
        for file in self.corpus.files() {
            match known.get(file.name.as_str()) {
                None => {
                    added.insert(file.name.as_str());
                }
                Some(holders) if self.is_other(file, holders, &mut memory)? => {
                    replaced.insert(file.name.as_str());
                }
                Some(_) => {}
            }
        }
        let gone = |piece: &Piece| removed.contains(piece.name.as_str()) || replaced.contains(piece.name.as_str());
        let dropped: BTreeMap<PartId, &Part> = in_effect
            .iter()
            .filter(|(_, (_, part))| part.pieces.iter().any(gone))
            .map(|(&id, &(_, part))| (id, part))
            .collect();
        let (mut pieces, unfit) = self.pieces(added.iter().chain(&replaced).copied())?;
        // Files without a piece are ignored: otherwise they would be added in every run.
        let cut: BTreeSet<&str> = pieces.iter().map(|(piece, _)| piece.name.as_str()).collect();
        added.retain(|name| cut.contains(name));
        self.note_cut(added.iter().chain(&replaced).copied(), &mut memory)?;
        let kept = dropped.values().flat_map(|part| &part.pieces).filter(|piece| !gone(piece));
        pieces.extend(self.weigh(kept)?);
        let seen = memory.new_fingerprints;
        if pieces.is_empty() && dropped.is_empty() && !self.lists.is_empty() {
            return Ok(ComparedCorpus { next: None, unfit, fingerprints: seen });
        }
        let touches = self.touches(dropped.keys());
        let list = self.list(dropped.into_keys().collect(), Vec::new(), pieces);
        let change = DatasetChange {
            dataset_version: list.dataset_version,
            added: added.len() as u64,
            replaced: replaced.len() as u64,
            removed: removed.len() as u64,
            forgotten: 0,
            dropped: list.dropped.len() as u64,
            parts: list.parts.len() as u64,
            touches,
        };
        Ok(ComparedCorpus { next: Some((list, change)), unfit, fingerprints: seen })
    }

    /// Returns the first dataset version that contains any of these parts.
    fn touches<'p>(&self, dropped: impl Iterator<Item = &'p PartId>) -> Option<DatasetVersion> {
        let in_effect = self.lists.in_effect();
        dropped.filter_map(|id| in_effect.get(id)).map(|(dataset_version, _)| *dataset_version).min()
    }

    /// Returns the list that drops these parts and makes them again without a document.
    pub(super) fn without(&self, digest: String, dropped: &[&Part]) -> Result<(PartList, DatasetChange)> {
        let pieces = self.weigh(dropped.iter().flat_map(|part| &part.pieces))?;
        let list = self.list(dropped.iter().map(|part| part.id).collect(), vec![digest], pieces);
        let change = DatasetChange {
            dataset_version: list.dataset_version,
            added: 0,
            replaced: 0,
            removed: 0,
            forgotten: 1,
            dropped: list.dropped.len() as u64,
            parts: list.parts.len() as u64,
            touches: self.touches(list.dropped.iter()),
        };
        Ok((list, change))
    }

    fn list(&self, dropped: Vec<PartId>, forgotten: Vec<String>, pieces: Vec<(Piece, u64)>) -> PartList {
        let (dataset_version, first) = self.lists.next();
        let parts = group(pieces, self.part_bytes, self.seed, first);
        PartList { dataset_version, settings: self.settings.clone(), dropped, forgotten, parts }
    }

    /// Checks and cuts files. Returns the pieces of valid files, and the invalid files.
    fn pieces<'n>(&self, names: impl Iterator<Item = &'n str>) -> Result<(Vec<(Piece, u64)>, InvalidFiles)> {
        let sorted = self.corpus.sort_out(names.filter_map(|name| self.corpus.file(name)))?;
        let pieces = self.corpus.pieces_of(&sorted.fit, self.part_bytes)?;
        let unfit = sorted.unfit.into_iter().map(|(file, why)| (file.path.display().to_string(), why));
        Ok((pieces, unfit.collect()))
    }

    /// Fails for files that changed while they were cut, and records the identity of the others.
    fn note_cut<'n>(&self, names: impl Iterator<Item = &'n str>, memory: &mut Memory) -> Result<()> {
        let files: Vec<_> = names.filter_map(|name| self.corpus.file(name)).collect();
        self.corpus.refuse_others(&files)?;
        for file in files {
            memory.new_fingerprints.note(file);
        }
        Ok(())
    }

    /// Returns previously cut pieces with their weights.
    fn weigh<'p>(&self, pieces: impl Iterator<Item = &'p Piece>) -> Result<Vec<(Piece, u64)>> {
        let mut weights = BTreeMap::<&str, BTreeMap<Piece, u64>>::new();
        let mut weighed = Vec::new();
        for piece in pieces {
            if !weights.contains_key(piece.name.as_str()) {
                let file = self.corpus.file(&piece.name).expect("pieces of files that are there");
                let cut = self.corpus.pieces(file, self.part_bytes)?;
                weights.insert(&piece.name, cut.into_iter().collect());
            }
            let weight = weights[piece.name.as_str()].get(piece).copied();
            weighed.push((piece.clone(), weight.unwrap_or(piece.range.end - piece.range.start)));
        }
        Ok(weighed)
    }

    /// Collects the facts about the parts before any file is read.
    fn memory(&self) -> Result<Memory> {
        let mut memory = Memory { settings: self.settings.digest(), ..Memory::default() };
        let Some(store) = self.store else { return Ok(memory) };
        memory.verdicts = VerdictDigests::read(store, self.settings, self.lists)?;
        memory.seen = Fingerprints::read(store)?;
        for list in self.lists.iter() {
            let stat = store.head(&part_list::file_name(list.dataset_version.0 as usize))?;
            memory.since.insert(list.dataset_version, stat.map_or(SystemTime::UNIX_EPOCH, |stat| stat.modified));
        }
        Ok(memory)
    }

    /// Whether a file has changed since its parts were made. It has not if its identity equals that recorded when it
    /// was cut or last read. Without a record, a file counts as unchanged if it was last modified a minute or more
    /// before the list. Other files are read and compared with the records of their parts.
    fn is_other(&self, file: &InputFile, holders: &PieceHolders<'_>, memory: &mut Memory) -> Result<bool> {
        if holders.iter().any(|(_, _, piece)| piece.bytes != file.bytes) {
            return Ok(true);
        }
        if memory.seen.has(file) {
            memory.new_fingerprints.note(file);
            return Ok(false);
        }
        let since = |dataset_version| memory.since.get(dataset_version).copied().unwrap_or(SystemTime::UNIX_EPOCH);
        let is_known = memory.seen.knows(file);
        let is_doubted = |dataset_version| is_known || file.touched >= since(dataset_version) - MAX_CLOCK_SKEW;
        let doubted: PieceHolders<'_> =
            holders.iter().filter(|(dataset_version, ..)| is_doubted(dataset_version)).copied().collect();
        for (dataset_version, part, piece) in doubted {
            if !self.reads_the_same(file, dataset_version, part, piece, memory)? {
                return Ok(true);
            }
        }
        // The file may have changed during the comparison; then its identity is not recorded.
        if file.refuse_another().is_ok() {
            memory.new_fingerprints.note(file);
        }
        Ok(false)
    }

    /// Whether a piece matches the records of its part. Without records, whether it would be cut at the same place.
    fn reads_the_same(
        &self,
        file: &InputFile,
        dataset_version: DatasetVersion,
        part: &Part,
        piece: &Piece,
        memory: &mut Memory,
    ) -> Result<bool> {
        if !memory.reached.contains_key(&part.id) {
            let reached = self.recorded_ends(dataset_version, part, memory)?;
            memory.reached.insert(part.id, reached);
        }
        if let Some(reached) = memory.reached[&part.id].get(piece) {
            return self.reads(file, piece, reached);
        }
        if memory.cut.as_ref().is_none_or(|(name, _)| *name != file.name) {
            let pieces = self.corpus.pieces(file, self.part_bytes)?.into_iter().map(|(piece, _)| piece);
            memory.cut = Some((file.name.clone(), pieces.collect()));
        }
        Ok(memory.cut.as_ref().is_some_and(|(_, pieces)| pieces.contains(piece)))
    }

    /// Returns the recorded ends of the pieces of a part.
    fn recorded_ends(
        &self,
        dataset_version: DatasetVersion,
        part: &Part,
        memory: &Memory,
    ) -> Result<BTreeMap<Piece, PieceEnd>> {
        let Some(store) = self.store else { return Ok(BTreeMap::new()) };
        let omit = ForgottenDocuments::new(self.lists, dataset_version);
        let mut ends = BTreeMap::new();
        // Without verdicts, no part was made.
        if let Some(verdicts) = memory.verdicts.get(part.id) {
            let bound = PartBinding { settings: &memory.settings, forgotten: omit.name(), verdicts, part };
            let read = FoundPart::read(store, bound)?.records.into_iter().flat_map(|record| record.read);
            ends.extend(read.map(|(index, reached)| (part.pieces[index].clone(), reached)));
        }
        // The verdicts are about the text of the signatures.
        if self.settings.removes_duplicates()
            && let Some(signed) = SignatureRecord::read(store, &memory.settings, part)?
        {
            ends.extend(part.pieces.iter().cloned().zip(signed.read));
        }
        Ok(ends)
    }

    /// Whether reading a piece again gives the same result. An unusable piece counts as changed; a failed read does not.
    fn reads(&self, file: &InputFile, piece: &Piece, reached: &PieceEnd) -> Result<bool> {
        let read = || {
            let mut reader = self.corpus.format().open(file, &piece.range, self.corpus.reading())?;
            reader.skip(reached.to)?;
            Ok(reader.reached() == *reached && reader.next(&mut RecordBuffers::default())?.is_none())
        };
        match read() {
            Err(Error::UnusableFile { .. }) => Ok(false),
            read => read,
        }
    }
}

/// Facts that a comparison has read from the folder, cached.
#[derive(Default)]
struct Memory {
    /// BLAKE3 of the settings.
    settings: String,
    /// Verdicts on duplicates.
    verdicts: VerdictDigests,
    /// Time at which each list was written.
    since: BTreeMap<DatasetVersion, SystemTime>,
    /// Recorded ends of the pieces of a part.
    reached: BTreeMap<PartId, BTreeMap<Piece, PieceEnd>>,
    /// Pieces of the file that was cut last.
    cut: Option<(String, BTreeSet<Piece>)>,
    /// Identities of files that were modified but have the same content, from earlier and this comparison.
    seen: Fingerprints,
    new_fingerprints: Fingerprints,
}

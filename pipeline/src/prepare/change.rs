//! What happened to the corpus since its parts were listed, and the list that follows from it.
//!
//! A file is the one that it was if it has the same name and the same length, and either was not touched since the parts
//! that hold it were listed, or reads the same when it is read again. Clocks are those of the files' and the folder's
//! file systems; where these are machines of their own, they must agree to within the age of the newest file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, SystemTime};

use schemas::{DatasetVersion, PartId};
use store::Store;

use super::commit_record::{Bound, FoundPart};
use super::config::Settings;
use super::fingerprints::Fingerprints;
use super::job::Omit;
use super::part_list::{self, Lists, PartList};
use crate::corpus::{Corpus, InputFile, Part, Piece, Reached, Spare, group};
use crate::{Error, Result};

/// By so much the clocks of two file systems may differ.
const A_SHORT_TIME: Duration = Duration::from_secs(60);

/// What a new list is about, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetChange {
    /// The number of the list.
    pub dataset_version: DatasetVersion,
    /// Files that are new.
    pub added: u64,
    /// Files that are not what they were.
    pub replaced: u64,
    /// Files that are gone.
    pub removed: u64,
    /// Documents that are to be forgotten.
    pub forgotten: u64,
    /// Parts that go.
    pub dropped: u64,
    /// Parts that come.
    pub parts: u64,
    /// The dataset versions that have parts which go: the first of them; it, and all up to this one.
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
        let (said, dropped, made) = (said.join(", "), parts(self.dropped), parts(self.parts));
        write!(f, "{said}: dataset version {} drops {dropped} and makes {made}", self.dataset_version)?;
        match (self.touches, self.dataset_version.0.checked_sub(1)) {
            (Some(first), Some(last)) if first.0 < last => {
                write!(
                    f,
                    "; runs over dataset versions {first} to {last} that would read what is dropped again are refused"
                )
            }
            (Some(first), _) => {
                write!(f, "; runs over dataset version {first} that would read what is dropped again are refused")
            }
            (None, _) => Ok(()),
        }
    }
}

/// Files that cannot be used, each with the reason.
pub(super) type Unfit = Vec<(String, String)>;

/// What comparing a folder with its corpus comes to.
pub(super) struct Compared {
    /// The list that the corpus asks for; none if nothing has changed.
    pub(super) next: Option<(PartList, DatasetChange)>,
    /// Files that are left out since they cannot be used, each with the reason.
    pub(super) unfit: Unfit,
    /// Files that were touched and read the same.
    pub(super) seen: Fingerprints,
}

/// A folder and the corpus that it is of, side by side.
pub(super) struct Comparison<'a> {
    pub(super) store: Option<&'a Store>,
    pub(super) lists: &'a Lists,
    pub(super) corpus: &'a Corpus,
    pub(super) settings: &'a Settings,
    pub(super) part_bytes: u64,
    pub(super) seed: u64,
}

/// The pieces of a file that are in parts in effect, each with its part.
type Holders<'a> = Vec<(DatasetVersion, &'a Part, &'a Piece)>;

impl Comparison<'_> {
    /// What the corpus asks for.
    pub(super) fn compare(&self) -> Result<Compared> {
        let in_effect = self.lists.in_effect();
        let mut known = BTreeMap::<&str, Holders<'_>>::new();
        for &(dataset_version, part) in in_effect.values() {
            for piece in &part.pieces {
                known.entry(&piece.name).or_default().push((dataset_version, part, piece));
            }
        }
        let removed: BTreeSet<&str> = known.keys().copied().filter(|name| self.corpus.file(name).is_none()).collect();
        if !known.is_empty() && removed.len() == known.len() {
            return Err(Error::Config(format!(
                "`prepare.folder` was prepared of other files: none of its {} ({}, …) is among `prepare.inputs`; name another \
                 `prepare.folder`, or delete this one to prepare it again",
                known.len(),
                removed.first().copied().unwrap_or_default()
            )));
        }
        let mut memory = self.memory()?;
        let (mut added, mut replaced) = (BTreeSet::new(), BTreeSet::new());
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
        // Files without a piece are nothing: an added one would be added again and again.
        let cut: BTreeSet<&str> = pieces.iter().map(|(piece, _)| piece.name.as_str()).collect();
        added.retain(|name| cut.contains(name));
        self.note_cut(added.iter().chain(&replaced).copied(), &mut memory)?;
        let kept = dropped.values().flat_map(|part| &part.pieces).filter(|piece| !gone(piece));
        pieces.extend(self.weigh(kept)?);
        let seen = memory.seen_now;
        if pieces.is_empty() && dropped.is_empty() && !self.lists.is_empty() {
            return Ok(Compared { next: None, unfit, seen });
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
        Ok(Compared { next: Some((list, change)), unfit, seen })
    }

    /// The first dataset version that has any of these parts.
    fn touches<'p>(&self, dropped: impl Iterator<Item = &'p PartId>) -> Option<DatasetVersion> {
        let in_effect = self.lists.in_effect();
        dropped.filter_map(|id| in_effect.get(id)).map(|(dataset_version, _)| *dataset_version).min()
    }

    /// The list that drops these parts and makes them again without a document.
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

    /// Checks and cuts files. Returns those that cannot be used next to the pieces of the others.
    fn pieces<'n>(&self, names: impl Iterator<Item = &'n str>) -> Result<(Vec<(Piece, u64)>, Unfit)> {
        let sorted = self.corpus.sort_out(names.filter_map(|name| self.corpus.file(name)))?;
        let mut pieces = Vec::new();
        for file in sorted.fit {
            pieces.extend(self.corpus.pieces(file, self.part_bytes)?);
        }
        let unfit = sorted.unfit.into_iter().map(|(file, why)| (file.path.display().to_string(), why));
        Ok((pieces, unfit.collect()))
    }

    /// Refuses files that were changed while they were cut, and notes what the others were.
    fn note_cut<'n>(&self, names: impl Iterator<Item = &'n str>, memory: &mut Memory) -> Result<()> {
        for file in names.filter_map(|name| self.corpus.file(name)) {
            file.refuse_another()?;
            memory.seen_now.note(file);
        }
        Ok(())
    }

    /// Pieces that were cut before, with their weights.
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

    /// What is known of the parts before any file is looked at.
    fn memory(&self) -> Result<Memory> {
        let mut memory = Memory { settings: self.settings.digest(), ..Memory::default() };
        let Some(store) = self.store else { return Ok(memory) };
        memory.seen = Fingerprints::read(store)?;
        for list in self.lists.iter() {
            let stat = store.stat(&part_list::file_name(list.dataset_version.0 as usize))?;
            memory.since.insert(list.dataset_version, stat.map_or(SystemTime::UNIX_EPOCH, |stat| stat.modified));
        }
        Ok(memory)
    }

    /// Whether a file is not what it was when parts of it were made. One that is what was seen when it was cut, or read
    /// since, is; where nothing is known of what was seen, one that was not touched from shortly before the list on. Of
    /// all others what their parts' records say is compared with what they hold.
    fn is_other(&self, file: &InputFile, holders: &Holders<'_>, memory: &mut Memory) -> Result<bool> {
        if holders.iter().any(|(_, _, piece)| piece.bytes != file.bytes) {
            return Ok(true);
        }
        if !memory.seen.has(file) {
            let since = |dataset_version| memory.since.get(dataset_version).copied().unwrap_or(SystemTime::UNIX_EPOCH);
            let is_known = memory.seen.knows(file);
            let is_doubted = |dataset_version| is_known || file.touched >= since(dataset_version) - A_SHORT_TIME;
            let doubted: Holders<'_> =
                holders.iter().filter(|(dataset_version, ..)| is_doubted(dataset_version)).copied().collect();
            for holder in doubted {
                if !self.reads_the_same(file, holder, memory)? {
                    return Ok(true);
                }
            }
        }
        // It may have been changed behind our backs: then it is not what was seen.
        if file.refuse_another().is_ok() {
            memory.seen_now.note(file);
        }
        Ok(false)
    }

    /// Whether a piece is what its part's records say, or, where they say nothing yet, would be cut as it was.
    fn reads_the_same(
        &self,
        file: &InputFile,
        (dataset_version, part, piece): (DatasetVersion, &Part, &Piece),
        memory: &mut Memory,
    ) -> Result<bool> {
        if !memory.reached.contains_key(&part.id) {
            let reached = self.reached(dataset_version, part, &memory.settings)?;
            memory.reached.insert(part.id, reached);
        }
        match memory.reached[&part.id].get(piece) {
            Some(reached) => Ok(self.reads(file, piece, reached).unwrap_or(false)),
            None => Ok(self.corpus.pieces(file, self.part_bytes)?.iter().any(|(cut, _)| cut == piece)),
        }
    }

    /// What the records of a part say of its pieces.
    fn reached(
        &self,
        dataset_version: DatasetVersion,
        part: &Part,
        settings: &str,
    ) -> Result<BTreeMap<Piece, Reached>> {
        let omit = Omit::of(self.lists, dataset_version);
        let bound = Bound { settings, forgotten: omit.name(), part };
        let found = self.store.map(|store| FoundPart::read(store, bound)).transpose()?.unwrap_or_default();
        let read = found.records.into_iter().flat_map(|record| record.read);
        Ok(read.map(|(index, reached)| (part.pieces[index].clone(), reached)).collect())
    }

    /// Whether reading a piece again comes to the same. One that cannot be read is another.
    fn reads(&self, file: &InputFile, piece: &Piece, reached: &Reached) -> Result<bool> {
        let mut reader = self.corpus.format().open(file, &piece.range, self.corpus.reading())?;
        reader.skip(reached.to)?;
        Ok(reader.reached() == *reached && reader.next(&mut Spare::default())?.is_none())
    }
}

/// What a comparison has asked the folder for, once.
#[derive(Default)]
struct Memory {
    /// BLAKE3 of the settings.
    settings: String,
    /// When each list was written.
    since: BTreeMap<DatasetVersion, SystemTime>,
    /// What the records of a part say of its pieces.
    reached: BTreeMap<PartId, BTreeMap<Piece, Reached>>,
    /// Files that were touched and read the same before, and now.
    seen: Fingerprints,
    seen_now: Fingerprints,
}

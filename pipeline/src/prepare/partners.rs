//! Partners of removed duplicates: `verdicts/part-00000.jsonl.zst`, a line for each removed document of a part, in order.
//!
//! The partner is the document because of which another one is removed. Its line has its place, its id and the number of
//! equal bands. Partners are written only if removed documents are listed. The sealed verdicts of the dataset version
//! have the BLAKE3 of each object.

use std::collections::BTreeMap;

use duplicates::{Verdicts, count_equal_bands};
use schemas::PartId;
use serde::{Deserialize, Serialize};
use store::Store;

use super::json_lines::{LinesReader, LinesWriter, is_intact};
use super::numbered_parts::StoredColumns;
use super::signatures::MAX_ID_BYTES;
use super::verdicts::{PartVerdicts, partners_name};
use crate::{Error, Result};

/// Memory of a pair of documents: the pair, its bands, and the partner's place and id.
const PAIR_BYTES: u64 = 128 + MAX_ID_BYTES as u64;

/// Document because of which another one is removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Partner {
    /// Name of its file.
    pub(super) source: String,
    /// Start within the file: bytes of the decompressed file, or rows of a Parquet file.
    pub(super) start: u64,
    /// Id, unless it is longer than [`MAX_ID_BYTES`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    /// Number of equal bands, if the document is a near duplicate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) equal_bands: Option<u32>,
}

/// Removed document with its partner, by their numbers.
#[derive(Clone, Copy, Debug)]
struct PartnerEntry {
    /// Index of the part of the removed document.
    part: usize,
    document: u32,
    partner: u32,
}

/// Writer of the partners of all parts, in an order of the parts.
pub(super) struct PartnerWriter<'a> {
    columns: StoredColumns<'a>,
    bands: usize,
    verdicts: &'a Verdicts,
    max_pairs: usize,
    pairs: Vec<PartnerEntry>,
    /// Object of the last part.
    open: Option<(usize, LinesWriter)>,
    digests: BTreeMap<PartId, String>,
}

impl<'a> PartnerWriter<'a> {
    /// Creates a writer that uses that much memory.
    pub(super) fn new(columns: StoredColumns<'a>, bands: usize, verdicts: &'a Verdicts, max_bytes: u64) -> Self {
        let max_pairs = usize::try_from(max_bytes / PAIR_BYTES).unwrap_or(usize::MAX).max(1);
        let pairs = Vec::new();
        Self { columns, bands, verdicts, max_pairs, pairs, open: None, digests: BTreeMap::new() }
    }

    /// Adds the removed documents of a part, by its index among all parts.
    pub(super) fn add(&mut self, part: usize, removed: &PartVerdicts) -> Result<()> {
        let first = &self.columns.parts[part].first;
        for removed in removed.iter() {
            let document = first[removed.piece as usize] + removed.number;
            self.pairs.push(PartnerEntry { part, document, partner: self.verdicts.partner(document) });
            if self.pairs.len() >= self.max_pairs {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Completes all objects. Returns their BLAKE3.
    pub(super) fn finish(mut self) -> Result<BTreeMap<PartId, String>> {
        self.flush()?;
        self.close()?;
        Ok(self.digests)
    }

    /// Looks the partners up, and writes their lines.
    fn flush(&mut self) -> Result<()> {
        let pairs = std::mem::take(&mut self.pairs);
        let verdicts = self.verdicts;
        let is_near = |pair: &&PartnerEntry| verdicts.near.contains(pair.document);
        let near: Vec<(u32, u32)> = pairs.iter().filter(is_near).map(|pair| (pair.document, pair.partner)).collect();
        let bands = if near.is_empty() { 0 } else { self.bands };
        let mut equal_bands = count_equal_bands(&near, bands, &mut self.columns)?.into_iter();
        let mut partners: Vec<u32> = pairs.iter().map(|pair| pair.partner).collect();
        partners.sort_unstable();
        partners.dedup();
        let found = self.find(&partners)?;
        for pair in &pairs {
            let index = partners.binary_search(&pair.partner).expect("each was looked up");
            let equal_bands = if is_near(&pair) { equal_bands.next() } else { None };
            self.write(pair.part, &Partner { equal_bands, ..found[index].clone() })?;
        }
        Ok(())
    }

    /// Finds the places and ids of documents, which are in ascending order.
    fn find(&self, documents: &[u32]) -> Result<Vec<Partner>> {
        let StoredColumns { store, parts, .. } = self.columns;
        let mut found: Vec<Option<Partner>> = vec![None; documents.len()];
        for part in parts.iter().filter(|part| part.has_any(documents)) {
            let mut ids = part.record.ids(store)?;
            let mut numbered = part.documents();
            let mut read = Ok(());
            part.record.starts(store, |start| {
                let next = numbered.next().expect("as many as starts");
                let index = documents.binary_search(&next.document).ok();
                let id = match index {
                    _ if read.is_err() => return,
                    Some(_) => ids.read().map(Option::flatten),
                    None => ids.skip().map(|_| None),
                };
                match (index, id) {
                    (Some(index), Ok(id)) => {
                        let source = part.record.part.pieces[next.piece as usize].name.clone();
                        found[index] = Some(Partner { source, start, id, equal_bands: None });
                    }
                    (None, Ok(_)) => {}
                    (_, Err(error)) => read = Err(error),
                }
            })?;
            read?;
        }
        Ok(found.into_iter().map(|partner| partner.expect("each has a number of a part")).collect())
    }

    fn write(&mut self, part: usize, partner: &Partner) -> Result<()> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != part) {
            self.close()?;
            let lines = LinesWriter::begin(self.columns.store, partners_name(self.id(part)))?;
            self.open = Some((part, lines));
        }
        let (_, lines) = self.open.as_mut().expect("opened above");
        lines.push(partner)
    }

    fn close(&mut self) -> Result<()> {
        let Some((part, lines)) = self.open.take() else { return Ok(()) };
        let (file, object) = lines.finish()?;
        object.commit()?;
        self.digests.insert(self.id(part), file.blake3);
        Ok(())
    }

    fn id(&self, part: usize) -> PartId {
        self.columns.parts[part].record.part.id
    }
}

/// Reader of the partners of a part.
pub(super) struct PartnerReader {
    lines: LinesReader<Partner>,
    /// Number of lines that were read.
    read: usize,
    place: String,
}

impl PartnerReader {
    /// Opens the partners of a part. Returns `None` if they are missing or have changed.
    pub(super) fn open(store: &Store, part: PartId, blake3: &str) -> Result<Option<Self>> {
        let name = partners_name(part);
        if !is_intact(store, &name, blake3)? {
            return Ok(None);
        }
        Ok(Some(Self { lines: LinesReader::open(store, &name)?, read: 0, place: store.place(&name) }))
    }

    /// Reads the partner of a removed document, by its index among those of the part. Indices ascend.
    pub(super) fn find(&mut self, index: usize) -> Result<Partner> {
        while self.read < index && self.lines.skip()? {
            self.read += 1;
        }
        self.read += 1;
        self.lines.read()?.ok_or_else(|| {
            let message = format!("damaged: it has no line {}; run `cloze verify --repair`", index + 1);
            Error::Shard { place: self.place.clone(), group: None, message }
        })
    }
}

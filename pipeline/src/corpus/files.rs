//! The files of a corpus and the way to read them.

use std::fmt;
use std::path::Path;

use schemas::PartId;

use super::cut::group;
use super::documents::{Documents, Place};
use super::inputs::{self, InputFile};
use super::piece::{BytesRead, Part, Piece, Reading};
use super::{AnyFormat, bytes};
use crate::{Error, Result};

/// What makes a corpus out of files; the `[prepare]` section's share of it.
#[derive(Clone, Debug)]
pub struct CorpusConfig {
    /// Files, folders and globs.
    pub inputs: Vec<String>,
    /// How documents lie in a file.
    pub format: AnyFormat,
    /// What they are read by.
    pub reading: Reading,
}

/// Sorted files and the way to read them.
pub struct Corpus {
    files: Vec<InputFile>,
    format: AnyFormat,
    reading: Reading,
}

impl fmt::Debug for Corpus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Corpus").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Corpus {
    /// Finds the files; opens none of them.
    pub fn open(config: &CorpusConfig) -> Result<Self> {
        let CorpusConfig { inputs, format, reading } = config.clone();
        Ok(Self { files: inputs::find(&inputs, format.extensions())?, format, reading })
    }

    /// The files, sorted by name.
    #[must_use]
    pub fn files(&self) -> &[InputFile] {
        &self.files
    }

    /// The file of that name.
    #[must_use]
    pub fn file(&self, name: &str) -> Option<&InputFile> {
        self.files.binary_search_by(|file| file.name.as_str().cmp(name)).ok().map(|index| &self.files[index])
    }

    /// Where the file of a piece is; its name alone, if it is no longer there.
    #[must_use]
    pub fn place<'a>(&'a self, piece: &'a Piece) -> &'a Path {
        self.file(&piece.name).map_or_else(|| Path::new(&piece.name), |file| &file.path)
    }

    /// Bytes on disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The size of parts where none is asked for.
    #[must_use]
    pub fn usual_part_bytes(&self) -> u64 {
        // 256 parts keep 64 lanes busy to the end; 64 MiB bounds what a kill costs to a minute or so.
        (self.bytes() / 256).clamp(1 << 20, 64 << 20)
    }

    /// The largest compressed file: nobody can enter it, so no number of lanes is faster than it.
    #[must_use]
    pub fn largest_compressed(&self) -> Option<&InputFile> {
        let compressed = |file: &&InputFile| bytes::Compression::of(&file.path) != bytes::Compression::Plain;
        self.files.iter().filter(compressed).max_by_key(|file| file.bytes)
    }

    /// Refuses a file that cannot be used; opens it for a moment.
    pub fn check(&self, file: &InputFile) -> Result<()> {
        self.format.check(file, &self.reading)
    }

    /// Cuts a file into pieces of about `stride`, with their weights in bytes on disk.
    pub fn pieces(&self, file: &InputFile, stride: u64) -> Result<Vec<(Piece, u64)>> {
        let piece = |range| Piece { name: file.name.clone(), bytes: file.bytes, range };
        let ranges = self.format.pieces(file, stride, &self.reading)?;
        Ok(ranges.into_iter().map(|(range, weight)| (piece(range), weight)).collect())
    }

    /// The whole corpus in parts of the usual size, for those who count.
    pub fn parts(&self) -> Result<Vec<Part>> {
        let size = self.usual_part_bytes();
        let mut pieces = Vec::new();
        for file in &self.files {
            self.check(file)?;
            pieces.extend(self.pieces(file, size)?);
        }
        Ok(group(pieces, size, 0, PartId(0)))
    }

    /// The documents of a part, in order.
    pub fn read<'a>(&'a self, part: &'a Part) -> Result<Documents<'a>> {
        self.documents(part, Place::default(), &BytesRead::default())
    }

    /// The documents of a part from a place on, in order. `count` counts what is read of its files.
    pub fn documents<'a>(&'a self, part: &'a Part, from: Place, count: &BytesRead) -> Result<Documents<'a>> {
        let file = |piece: &Piece| {
            let gone = || "no longer what the part list says; run the same command again".to_owned();
            let gone = || Error::Corpus { path: piece.name.clone().into(), line: None, message: gone() };
            self.file(&piece.name).filter(|file| file.bytes == piece.bytes).ok_or_else(gone)
        };
        let files = part.pieces.iter().map(file).collect::<Result<_>>()?;
        let reading = Reading { bytes_read: count.clone(), ..self.reading.clone() };
        Documents::open(part, files, &self.format, reading, from)
    }

    /// How documents lie in the files.
    #[must_use]
    pub fn format(&self) -> &AnyFormat {
        &self.format
    }

    /// What they are read by.
    #[must_use]
    pub fn reading(&self) -> &Reading {
        &self.reading
    }
}

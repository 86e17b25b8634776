//! The files of a corpus and how they are cut into parts.

use std::fmt;
use std::path::Path;

use super::documents::{Complaint, Documents};
use super::inputs::{self, InputFile};
use super::piece::{Part, Piece, Reading};
use super::{AnyFormat, bytes};
use crate::Result;

/// What makes a corpus out of files; the `[prepare]` section's share of it.
#[derive(Clone, Debug, PartialEq)]
pub struct CorpusConfig {
    /// Files, folders and globs.
    pub inputs: Vec<String>,
    /// How documents lie in a file.
    pub format: AnyFormat,
    /// What they are read by.
    pub reading: Reading,
    /// Size of a part on disk; `None` chooses by the corpus' size.
    pub part_bytes: Option<u64>,
}

/// Sorted files and the way to read them.
pub struct Corpus {
    files: Vec<InputFile>,
    format: AnyFormat,
    reading: Reading,
    part_bytes: u64,
}

impl fmt::Debug for Corpus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Corpus").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Corpus {
    /// Finds the files and refuses those that cannot be used; opens each for a moment, writes nothing.
    pub fn open(config: &CorpusConfig) -> Result<Self> {
        let CorpusConfig { inputs, format, reading, part_bytes } = config.clone();
        let files = inputs::find(&inputs, format.extensions())?;
        files.iter().try_for_each(|file| format.check(file, &reading))?;
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        // 256 parts keep 64 lanes busy to the end; 64 MiB bounds what a kill costs to a minute or so.
        let part_bytes = part_bytes.unwrap_or_else(|| (bytes / 256).clamp(1 << 20, 64 << 20));
        Ok(Self { files, format, reading, part_bytes })
    }

    /// The files, sorted by name.
    #[must_use]
    pub fn files(&self) -> &[InputFile] {
        &self.files
    }

    /// How documents lie in them.
    #[must_use]
    pub fn format(&self) -> &AnyFormat {
        &self.format
    }

    /// What they are read by.
    #[must_use]
    pub fn reading(&self) -> &Reading {
        &self.reading
    }

    /// Bytes on disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The largest compressed file: nobody can cut it, so no number of lanes is faster than it.
    #[must_use]
    pub fn largest_compressed(&self) -> Option<&InputFile> {
        let compressed = |file: &&InputFile| bytes::Compression::of(&file.path) != bytes::Compression::Plain;
        self.files.iter().filter(compressed).max_by_key(|file| file.bytes)
    }

    /// The parts, in order.
    pub fn parts(&self) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        let mut open = Part { index: 0, bytes: 0, pieces: Vec::new() };
        for (source, file) in (0_u32..).zip(&self.files) {
            for (range, bytes) in self.format.pieces(file, self.part_bytes, &self.reading)? {
                if open.bytes + bytes > self.part_bytes && !open.pieces.is_empty() {
                    let index = open.index + 1;
                    parts.push(std::mem::replace(&mut open, Part { index, bytes: 0, pieces: Vec::new() }));
                }
                open.bytes += bytes;
                open.pieces.push(Piece { source, name: file.name.clone(), range });
            }
        }
        if !open.pieces.is_empty() {
            parts.push(open);
        }
        Ok(parts)
    }

    /// The documents of a part, in order.
    #[must_use]
    pub fn documents<'a>(&'a self, part: &'a Part) -> Documents<'a> {
        let files = part.pieces.iter().map(|piece| &self.files[piece.source as usize]).collect();
        Documents::new(part, files, &self.format, &self.reading)
    }

    /// The 1-based line of a complaint in its file.
    pub fn line(&self, part: &Part, complaint: &Complaint) -> Result<u64> {
        let piece = &part.pieces[complaint.piece];
        let before = self.format.lines_before(&self.files[piece.source as usize], &piece.range, &self.reading)?;
        Ok(before + complaint.line + 1)
    }

    /// The file that a piece is of.
    #[must_use]
    pub fn path(&self, piece: &Piece) -> &Path {
        &self.files[piece.source as usize].path
    }

    /// The corpus in a line: two that differ in it are not the same.
    #[must_use]
    pub fn outline(&self) -> String {
        format!("{} files, {} bytes", self.files.len(), self.bytes())
    }
}

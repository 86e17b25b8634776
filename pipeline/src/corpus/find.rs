//! Lookup of one document by its position, for inspection of training data.

use std::io::{self, BufRead as _, Read as _};
use std::ops::Range;

use schemas::{Document, PartId};

use super::bytes;
use super::files::Corpus;
use super::input_split::{Part, Piece};
use crate::Result;

/// Size of a piece that is read to find a document.
const STRIDE: u64 = 16 << 20;

/// Maximum number of bytes that are skipped to reach a line.
const MAX_SKIPPED_BYTES: u64 = 64 << 20;

impl Corpus {
    /// Returns the beginning of a line of a piece, at most `most` bytes: the subject of a complaint. Returns `None` if
    /// the file is not text, has changed, or if the line is after 64 MiB.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn line(&self, piece: &Piece, line: u64, most: usize) -> Result<Option<String>> {
        let Some(file) = self.file(&piece.name).filter(|file| file.bytes == piece.bytes) else { return Ok(None) };
        if self.format().has_rows() {
            return Ok(None);
        }
        let refused = |error: io::Error| bytes::read_error(&file.path, &error);
        let mut text = bytes::open(file, &piece.range, self.reading())?.take(MAX_SKIPPED_BYTES);
        for _ in 0..line {
            if text.skip_until(b'\n').map_err(refused)? == 0 {
                return Ok(None);
            }
        }
        let mut found = Vec::new();
        text.take(most as u64).read_until(b'\n', &mut found).map_err(refused)?;
        Ok((!found.is_empty()).then(|| String::from_utf8_lossy(&found).trim_end().to_owned()))
    }

    /// Returns the document at a range of a file, as [`Found::range`](super::documents::Found) gives it. Returns `None`
    /// if the file or the document no longer exists. A compressed file is read from its beginning.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn find(&self, name: &str, range: &Range<u64>) -> Result<Option<Document>> {
        let Some(file) = self.file(name) else { return Ok(None) };
        let counts_bytes = !self.format().has_rows();
        let pieces = self.pieces(file, STRIDE)?;
        let holds = |piece: &Range<u64>| counts_bytes && piece.contains(&range.start);
        let mut pieces: Vec<_> = pieces.into_iter().map(|(piece, _)| piece).collect();
        // Ranges of a compressed file count compressed bytes, those of documents decompressed ones.
        if let Some(at) = pieces.iter().position(|piece| pieces.len() > 1 && holds(&piece.range)) {
            pieces = vec![pieces.swap_remove(at)];
        }
        let part = Part { id: PartId(0), bytes: file.bytes, pieces };
        for found in self.read(&part)? {
            let found = found?;
            if found.range == *range {
                return Ok(found.document);
            }
        }
        Ok(None)
    }
}

//! The files of a corpus and the way to read them.

use std::fmt::{self, Write as _};
use std::path::Path;

use schemars::JsonSchema;
use schemas::PartId;
use serde::{Deserialize, Serialize};

use super::cut::group;
use super::discover::PassedOver;
use super::documents::{Complaint, Documents, Place};
use super::input_split::{BytesRead, Part, Piece, Reading};
use super::inputs::{self, InputFile};
use super::sniff::{self, Fitness, Head};
use super::{AnyFormat, bytes};
use crate::{Error, Result};

/// Records of which none has the fields that are asked for, after which their names are wrong.
const RECORDS_MIN: u64 = 10;

/// What makes a corpus out of files; the `[prepare]` section's share of it.
#[derive(Clone, Debug)]
pub struct CorpusConfig {
    /// Files, folders and globs.
    pub inputs: Vec<String>,
    /// How documents lie in a file.
    pub format: AnyFormat,
    /// What they are read by.
    pub reading: Reading,
    /// What becomes of files that cannot be used.
    pub on_invalid_file: InvalidFilePolicy,
}

/// What becomes of files that cannot be used: binary ones, or of another encoding or format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InvalidFilePolicy {
    /// The error names all of them, and nothing is prepared.
    #[default]
    Error,
    /// They are skipped and counted.
    Skip,
}

/// Files, those that can be used apart from the others.
#[derive(Debug, Default)]
pub struct SortedOut<'a> {
    /// Those that can be used.
    pub fit: Vec<&'a InputFile>,
    /// Those that cannot, each with the reason.
    pub unfit: Vec<(&'a InputFile, String)>,
}

/// Sorted files and the way to read them.
pub struct Corpus {
    files: Vec<InputFile>,
    passed: PassedOver,
    on_invalid_file: InvalidFilePolicy,
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
        let CorpusConfig { inputs, format, reading, on_invalid_file } = config.clone();
        let (files, passed) = inputs::find(&inputs, format.extensions())?;
        Ok(Self { files, passed, on_invalid_file, format, reading })
    }

    /// Refuses inputs that name no file, in the words of [`open`](Self::open), without looking for all of them.
    pub fn look(config: &CorpusConfig) -> Result<()> {
        inputs::look(&config.inputs, config.format.extensions())
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

    /// Where a complaint about a part is, in words: file and line, counted from where the part begins in the file.
    #[must_use]
    pub fn words(&self, part: &Part, complaint: Complaint) -> String {
        let piece = &part.pieces[complaint.piece];
        piece.words(&self.place(piece).display(), complaint.line)
    }

    /// Bytes on disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The size of parts where none is asked for.
    #[must_use]
    pub fn usual_part_bytes(&self) -> u64 {
        // 256 parts keep 64 workers busy to the end; 64 MiB bounds what a kill costs to a minute or so. A part costs some six
        // flushes and a record of its vocabulary: of 1 MiB it took 20 % longer than of 8 MiB, to shards of half a row group.
        self.part_bytes(8 << 20)
    }

    /// A part of 256, of `least` bytes or more and not too many.
    fn part_bytes(&self, least: u64) -> u64 {
        (self.bytes() / 256).clamp(least, 64 << 20)
    }

    /// The largest compressed file: nobody can enter it, so no number of workers is faster than it.
    #[must_use]
    pub fn largest_compressed(&self) -> Option<&InputFile> {
        let compressed = |file: &&InputFile| bytes::Compression::of(&file.path) != bytes::Compression::Plain;
        self.files.iter().filter(compressed).max_by_key(|file| file.bytes)
    }

    /// What was skipped when the files were looked for.
    #[must_use]
    pub fn passed_over(&self) -> &PassedOver {
        &self.passed
    }

    /// Tells the files that can be used from the others; opens each for a moment. Refuses them as was asked for, all at
    /// once, and a whole corpus of whose first records none has the fields that are to be read: their names are wrong.
    pub fn sort_out<'a>(&self, files: impl Iterator<Item = &'a InputFile>) -> Result<SortedOut<'a>> {
        let (mut sorted, mut head) = (SortedOut::default(), Head::default());
        for file in files {
            let Fitness { unfit, head: more } = self.format.check(file, &self.reading)?;
            head.add(more);
            match unfit {
                None => sorted.fit.push(file),
                Some(why) => sorted.unfit.push((file, why)),
            }
        }
        let is_all = sorted.fit.len() + sorted.unfit.len() == self.files.len();
        let none_is_left = is_all && sorted.fit.is_empty();
        if !sorted.unfit.is_empty() && (self.on_invalid_file == InvalidFilePolicy::Error || none_is_left) {
            return Err(self.refuse(&sorted));
        }
        // Of files that were added, and of a few records before many more, all may be dirt.
        let is_enough = head.records >= RECORDS_MIN || (head.records > 0 && !head.is_cut);
        if is_all && head.with_fields == 0 && is_enough {
            return Err(self.misnamed(&sorted, &head));
        }
        Ok(sorted)
    }

    fn refuse(&self, sorted: &SortedOut<'_>) -> Error {
        const NAMED: usize = 50;
        let (first, why) = &sorted.unfit[0];
        let others = sorted.unfit.iter().skip(1).take(NAMED);
        let mut message = why.clone();
        for (file, why) in others {
            let _ = write!(message, "\n{}: {why}", file.path.display());
        }
        if sorted.unfit.len() > NAMED + 1 {
            let _ = write!(message, "\nand {} more", sorted.unfit.len() - NAMED - 1);
        }
        if self.on_invalid_file == InvalidFilePolicy::Error && sorted.unfit.len() > 1 {
            let (unfit, all) = (sorted.unfit.len(), sorted.unfit.len() + sorted.fit.len());
            let hint = "set `prepare.on_invalid_file = \"skip\"` to leave them out";
            let _ = write!(message, "\n{unfit} of {all} files cannot be used; {hint}");
        }
        Error::Unfit { path: first.path.clone(), line: None, message }
    }

    fn misnamed(&self, sorted: &SortedOut<'_>, head: &Head) -> Error {
        const NAMED: usize = 20;
        let fields: Vec<String> =
            head.fields.iter().take(NAMED).map(|name| format!("`{}`", name.escape_debug())).collect();
        let (text, records) = (&self.reading.text_field, head.records);
        let wanted = match &self.reading.id_field {
            Some(id) => format!("the fields `{text}` and `{id}`"),
            None => format!("a field `{text}`"),
        };
        let keys = if self.reading.id_field.is_some() { " and `prepare.id_field`" } else { "" };
        let first = sorted.fit.first().map_or(String::new(), |file| file.path.display().to_string());
        let more = match sorted.fit.len() {
            0 | 1 => String::new(),
            all => format!(" and {} more files", all - 1),
        };
        Error::Config(format!(
            "{first}{more}: none of the first {records} records has {wanted}; they have {}; set `prepare.text_field`{keys}",
            fields.join(", ")
        ))
    }

    /// The first bytes of a file of text, decompressed and as UTF-8, broken characters and all.
    pub fn beginning(&self, file: &InputFile, bytes: u64) -> Result<Vec<u8>> {
        sniff::beginning(file, bytes, &self.reading)
    }

    /// Cuts a file into pieces of about `stride`, with their weights in bytes on disk.
    pub fn pieces(&self, file: &InputFile, stride: u64) -> Result<Vec<(Piece, u64)>> {
        let piece = |range| Piece { name: file.name.clone(), bytes: file.bytes, range };
        let ranges = self.format.pieces(file, stride, &self.reading)?;
        Ok(ranges.into_iter().map(|(range, weight)| (piece(range), weight)).collect())
    }

    /// The whole corpus in some 256 parts, for those who count.
    pub fn parts(&self) -> Result<Vec<Part>> {
        // Nothing is written of them: they may be small.
        let size = self.part_bytes(1 << 20);
        let mut pieces = Vec::new();
        for file in self.sort_out(self.files.iter())?.fit {
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
        let room = self.reading.room.part();
        let reading = Reading { bytes_read: count.clone(), room, ..self.reading.clone() };
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

//! Files of a corpus and the configuration for reading them.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use schemas::PartId;
use serde::{Deserialize, Serialize};

use super::compression::Compression;
use super::cut::group;
use super::discover::SkippedFiles;
use super::documents::{Complaint, DocumentPlace, Documents};
use super::file_names::KnownFiles;
use super::input_split::{BytesRead, Part, Piece, ReadOptions};
use super::inputs::{self, InputFile};
use super::object::HEAD_BYTES;
use super::sniff::{self, FileCheck, Head};
use super::{AnyFormat, bytes};
use crate::requests::request_all;
use crate::{Error, Result};

/// Minimum number of records before missing fields in all of them count as wrong field names.
const MIN_RECORDS: u64 = 10;

/// Corpus configuration: inputs, format and reading options of the `[prepare]` section.
#[derive(Clone, Debug)]
pub struct CorpusConfig {
    /// Files, folders and globs.
    pub inputs: Vec<String>,
    /// Format of the files.
    pub format: AnyFormat,
    /// Options for reading records.
    pub reading: ReadOptions,
    /// Policy for unusable files.
    pub on_invalid_file: InvalidFilePolicy,
}

/// Policy for unusable files: binary files, or files of another encoding or format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InvalidFilePolicy {
    /// Fail: the error names all of them, and nothing is prepared.
    #[default]
    Error,
    /// Skip and count them.
    Skip,
}

/// Files, split into usable and unusable ones.
#[derive(Debug, Default)]
pub struct SniffResult<'a> {
    /// Usable files.
    pub fit: Vec<&'a InputFile>,
    /// Unusable files, each with the reason.
    pub unfit: Vec<(&'a InputFile, String)>,
}

/// Sorted files with their reading options.
pub struct Corpus {
    files: Vec<InputFile>,
    passed: SkippedFiles,
    on_invalid_file: InvalidFilePolicy,
    format: AnyFormat,
    reading: ReadOptions,
}

/// Largest length that a file may claim: 256 TiB, more than any object store holds in one. A longer one would be divided
/// into millions of parts.
const MAX_FILE_BYTES: u64 = 1 << 48;

/// Refuses the length of a file that a faulty server or a sparse file claims.
fn refuse_impossible_length(file: &InputFile) -> Result<()> {
    if file.bytes <= MAX_FILE_BYTES {
        return Ok(());
    }
    let message = format!("it claims {} bytes, which no file has; check the server or replace the file", file.bytes);
    Err(Error::Config(format!("{}: {message}", file.path.display())))
}

impl fmt::Debug for Corpus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Corpus").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Corpus {
    /// Finds the files; opens none of them.
    pub fn open(config: &CorpusConfig) -> Result<Self> {
        Self::open_known(config, &KnownFiles::new())
    }

    /// Finds the files. Those that a prepared folder knows keep their names.
    pub(crate) fn open_known(config: &CorpusConfig, known: &KnownFiles) -> Result<Self> {
        let CorpusConfig { inputs, format, reading, on_invalid_file } = config.clone();
        let (files, passed) = inputs::find(&inputs, format.extensions(), known)?;
        files.iter().try_for_each(refuse_impossible_length)?;
        Ok(Self { files, passed, on_invalid_file, format, reading })
    }

    /// Creates a corpus of these files only, without a search.
    #[must_use]
    pub fn with_files(config: &CorpusConfig, mut files: Vec<InputFile>) -> Self {
        let CorpusConfig { format, reading, on_invalid_file, .. } = config.clone();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Self { files, passed: SkippedFiles::default(), on_invalid_file, format, reading }
    }

    /// Returns the error of [`open`](Self::open) for inputs without files, without listing all files.
    pub fn check_inputs(config: &CorpusConfig) -> Result<()> {
        inputs::check(&config.inputs, config.format.extensions())
    }

    /// Returns the files, sorted by name.
    #[must_use]
    pub fn files(&self) -> &[InputFile] {
        &self.files
    }

    /// Returns the file of that name.
    #[must_use]
    pub fn file(&self, name: &str) -> Option<&InputFile> {
        self.files.binary_search_by(|file| file.name.as_str().cmp(name)).ok().map(|index| &self.files[index])
    }

    /// Returns the path of a piece's file; only its name, if the file no longer exists.
    #[must_use]
    pub fn path<'a>(&'a self, piece: &'a Piece) -> &'a Path {
        self.file(&piece.name).map_or_else(|| Path::new(&piece.name), |file| &file.path)
    }

    /// Returns the location of a complaint: file and line, counted from the beginning of the part in the file.
    #[must_use]
    pub fn describe(&self, part: &Part, complaint: Complaint) -> String {
        let piece = &part.pieces[complaint.piece];
        piece.describe(&self.path(piece).display(), complaint.line)
    }

    /// Returns the bytes on disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Returns the default size of parts.
    #[must_use]
    pub fn usual_part_bytes(&self) -> u64 {
        // 256 parts keep 64 workers busy to the end; 64 MiB bounds the loss of a kill to about a minute. A part costs
        // some six flushes and a vocabulary record: parts of 1 MiB took 20 % longer than parts of 8 MiB, and gave
        // shards of half a row group.
        self.part_bytes(8 << 20)
    }

    /// Returns the size of one of 256 parts: at least `least` bytes, with an upper limit.
    fn part_bytes(&self, least: u64) -> u64 {
        (self.bytes() / 256).clamp(least, 64 << 20)
    }

    /// Returns the largest compressed file: only one worker can read it, so it bounds the speedup of more workers.
    #[must_use]
    pub fn largest_compressed(&self) -> Option<&InputFile> {
        let compressed = |file: &&InputFile| Compression::from_path(&file.path) != Compression::Plain;
        self.files.iter().filter(compressed).max_by_key(|file| file.bytes)
    }

    /// Returns the paths that were skipped during discovery.
    #[must_use]
    pub fn skipped_files(&self) -> &SkippedFiles {
        &self.passed
    }

    /// Splits the files into usable and unusable ones; opens each file briefly. With the policy `error`, one error
    /// names all unusable files. It is a configuration error if no first record of the whole corpus has the configured
    /// fields with usable values.
    pub fn sort_out<'a>(&self, files: impl Iterator<Item = &'a InputFile>) -> Result<SniffResult<'a>> {
        let mut sorted = SniffResult::default();
        let mut head = Head::default();
        let files: Vec<&InputFile> = files.collect();
        let checker = Arc::new((self.format.clone(), self.reading.clone()));
        let checks = map_files(&files, move |file| {
            let (format, reading) = &*checker;
            // Of a long file of rows, the check reads other parts too: the end of a Parquet file, for example.
            let is_read_elsewhere = format.has_rows() && file.bytes > HEAD_BYTES;
            let file = if is_read_elsewhere {
                file.clone()
            } else {
                file.with_head().map_err(|error| bytes::store_error(&file.path, error))?
            };
            match bytes::name_problem(&file)? {
                Some(problem) => Ok(FileCheck::unfit(problem)),
                None => format.check(&file, reading),
            }
        });
        for (file, check) in files.into_iter().zip(checks) {
            let check = check?;
            let FileCheck { unfit, head: more } = check;
            head.add(more);
            match unfit {
                None => sorted.fit.push(file),
                Some(why) => sorted.unfit.push((file, why)),
            }
        }
        let is_all = sorted.fit.len() + sorted.unfit.len() == self.files.len();
        // Added files, or a few records of a larger file, may all be invalid.
        let is_enough = head.records >= MIN_RECORDS || (head.records > 0 && !head.is_cut);
        if is_all && head.with_fields == 0 && is_enough {
            return Err(self.missing_fields_error(&head));
        }
        let none_is_left = is_all && sorted.fit.is_empty();
        if !sorted.unfit.is_empty() && (self.on_invalid_file == InvalidFilePolicy::Error || none_is_left) {
            return Err(self.invalid_files_error(&sorted));
        }
        Ok(sorted)
    }

    fn invalid_files_error(&self, sorted: &SniffResult<'_>) -> Error {
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
            let unfit = sorted.unfit.len();
            let all = sorted.unfit.len() + sorted.fit.len();
            let hint = "set `prepare.on_invalid_file = \"skip\"` to leave them out";
            let _ = write!(message, "\n{unfit} of {all} files cannot be used; {hint}");
        }
        Error::UnusableFile { path: first.path.clone(), line: None, message }
    }

    fn missing_fields_error(&self, head: &Head) -> Error {
        const NAMED: usize = 20;
        let fields: Vec<String> =
            head.fields.iter().take(NAMED).map(|name| format!("`{}`", name.escape_debug())).collect();
        let text = &self.reading.text_field;
        let records = head.records;
        let wanted = match &self.reading.id_field {
            Some(id) => format!("the fields `{text}` and `{id}`"),
            None => format!("a field `{text}`"),
        };
        let keys = if self.reading.id_field.is_some() { " and `prepare.id_field`" } else { "" };
        let first = self.files.first().map_or(String::new(), |file| file.path.display().to_string());
        let more = match self.files.len() {
            0 | 1 => String::new(),
            all => format!(" and {} more files", all - 1),
        };
        let nested = if text.contains('.') {
            let outer = "write the text to a field of the outer object, for example with";
            format!("; fields within fields are not read: {outer} `jq -c '{{text: .{text}}}'`")
        } else {
            String::new()
        };
        let unusable: Vec<String> = head.unusable.iter().map(|(name, reason)| format!("`{name}` {reason}; ")).collect();
        Error::Config(format!(
            "{first}{more}: none of the first {records} records has {wanted} that can be used; they have {}; \
             {}set `prepare.text_field`{keys}{nested}",
            fields.join(", "),
            unusable.concat()
        ))
    }

    /// Reads the first bytes of a text file, decompressed and as UTF-8, including invalid characters.
    pub fn beginning(&self, file: &InputFile, bytes: u64) -> Result<Vec<u8>> {
        sniff::beginning(file, bytes, &self.reading)
    }

    /// Cuts a file into pieces of about `stride`, with their weights in bytes on disk.
    pub fn pieces(&self, file: &InputFile, stride: u64) -> Result<Vec<(Piece, u64)>> {
        self.pieces_of(&[file], stride)
    }

    /// Cuts files as [`pieces`](Self::pieces) does, in their order. Objects are read in parallel.
    pub fn pieces_of(&self, files: &[&InputFile], stride: u64) -> Result<Vec<(Piece, u64)>> {
        let cutter = Arc::new((self.format.clone(), self.reading.clone()));
        let ranges = map_files(files, move |file| {
            let (format, reading) = &*cutter;
            format.pieces(file, stride, reading)
        });
        let mut pieces = Vec::new();
        for (file, ranges) in files.iter().zip(ranges) {
            let piece = |range| Piece { name: file.name.clone(), bytes: file.bytes, range };
            pieces.extend(ranges?.into_iter().map(|(range, weight)| (piece(range), weight)));
        }
        Ok(pieces)
    }

    /// Returns an error if one of the files has changed since discovery. Objects are asked for in parallel.
    pub fn refuse_others(&self, files: &[&InputFile]) -> Result<()> {
        map_files(files, InputFile::refuse_another).collect()
    }

    /// Returns the whole corpus in some 256 parts, for counting.
    pub fn parts(&self) -> Result<Vec<Part>> {
        // Counting writes no files per part, so that parts may be small.
        let size = self.part_bytes(1 << 20);
        let pieces = self.pieces_of(&self.sort_out(self.files.iter())?.fit, size)?;
        Ok(group(pieces, size, 0, PartId(0)))
    }

    /// Returns the documents of a part, in order.
    pub fn read<'a>(&'a self, part: &'a Part) -> Result<Documents<'a>> {
        self.documents(part, DocumentPlace::default(), &BytesRead::default())
    }

    /// Returns the documents of a part from a position on, in order. `count` counts the bytes read from its files.
    pub fn documents<'a>(&'a self, part: &'a Part, from: DocumentPlace, count: &BytesRead) -> Result<Documents<'a>> {
        let file = |piece: &Piece| {
            let gone = || "no longer what the part list says; run the same command again".to_owned();
            let gone = || Error::Corpus { path: piece.name.clone().into(), line: None, message: gone() };
            self.file(&piece.name).filter(|file| file.bytes == piece.bytes).ok_or_else(gone)
        };
        let files = part.pieces.iter().map(file).collect::<Result<_>>()?;
        let room = self.reading.memory_budget.part();
        let reading = ReadOptions { bytes_read: count.clone(), memory_budget: room, ..self.reading.clone() };
        Documents::open(part, files, &self.format, reading, from)
    }

    /// Returns the format of the files.
    #[must_use]
    pub fn format(&self) -> &AnyFormat {
        &self.format
    }

    /// Returns the reading options.
    #[must_use]
    pub fn reading(&self) -> &ReadOptions {
        &self.reading
    }
}

/// Applies a function to files, in order: in parallel if one of them is an object.
fn map_files<T: Send + 'static>(
    files: &[&InputFile],
    apply: impl Fn(&InputFile) -> Result<T> + Send + Sync + 'static,
) -> Box<dyn Iterator<Item = Result<T>>> {
    let are_remote = files.iter().any(|file| file.object().is_some());
    let files: Vec<InputFile> = files.iter().copied().cloned().collect();
    request_all(files, are_remote, apply)
}

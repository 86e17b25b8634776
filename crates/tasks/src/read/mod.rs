//! Readers of examples: TSV, CSV, JSONL, Parquet, SQuAD and word files, in bounded memory.
//!
//! Each invalid line is one [`RowError`] with file, line, column and a remedy; the reader continues with the next line
//! unless [`RowError::is_last`] is true. Text files may be compressed with gzip (`.gz`).

mod articles;
mod build;
#[cfg(test)]
mod fuzz;
mod json_lines;
mod lines;
mod parquet;
mod quoted;
mod squad_json;
mod step;
mod table;
#[cfg(test)]
mod tests;
mod tsv;
mod word_file;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use self::articles::ArticleScanner;
use self::build::ExampleBuilder;
use self::json_lines::JsonLineReader;
use self::lines::LineReader;
use self::parquet::ParquetRowReader;
use self::quoted::{QuotedOptions, QuotedReader};
use self::squad_json::SquadReader;
use self::step::{ExampleSource, ExampleStep};
use self::table::{RowReader, RowStep};
use self::tsv::TsvReader;
use self::word_file::WordFileReader;
use crate::RowError;
use crate::example::{Example, TaskOutput};
use crate::layout::{FileLayout, TableFormat, TableLayout};

/// Longest line, record, sentence or SQuAD article in bytes.
pub const MAX_RECORD_BYTES: usize = 16 << 20;

/// Counts of a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Examples.
    pub examples: u64,
    /// Invalid lines: one error each.
    pub invalid: u64,
    /// Lines of another number of fields that the layout drops.
    pub dropped: u64,
    /// Blank lines, and markers of document starts in word files.
    pub blank: u64,
}

/// Reader of the examples of a file, one at a time.
pub struct ExampleReader {
    file: PathBuf,
    source: Box<dyn ExampleSource>,
    counts: ReadCounts,
    has_ended: bool,
}

impl ExampleReader {
    /// Opens a file. Errors of its header are returned by the first call of `next`.
    pub fn open(file: &Path, layout: &FileLayout, output: &TaskOutput) -> Result<Self, RowError> {
        let in_file = |error: RowError| error.in_file(file);
        if let FileLayout::Table(table @ TableLayout { format: TableFormat::Parquet, .. }) = layout {
            let builder = ExampleBuilder::new(table.columns.clone(), output.clone());
            let rows = ParquetRowReader::open(file, builder.requested()).map_err(in_file)?;
            return Ok(Self::new(file, Box::new(TableSource { rows: Box::new(rows), builder })));
        }
        let opened = File::open(file).map_err(|error| in_file(RowError::io(0, &error)))?;
        let plain = BufReader::new(opened);
        let is_gzip = file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
        let input: Box<dyn BufRead> =
            if is_gzip { Box::new(BufReader::new(MultiGzDecoder::new(plain))) } else { Box::new(plain) };
        Ok(Self::from_text(file, input, layout, output, MAX_RECORD_BYTES))
    }

    /// Reads a text format. `file` is the name in errors.
    fn from_text(file: &Path, input: Box<dyn BufRead>, layout: &FileLayout, output: &TaskOutput, max: usize) -> Self {
        let source: Box<dyn ExampleSource> = match layout {
            FileLayout::Table(table) => {
                let builder = ExampleBuilder::new(table.columns.clone(), output.clone());
                let rows = rows(LineReader::new(input, max), table, &builder, max);
                Box::new(TableSource { rows, builder })
            }
            FileLayout::SquadJson => {
                let allows_none = *output == TaskOutput::Spans { allows_none: true };
                Box::new(SquadReader::new(ArticleScanner::new(input, max), allows_none))
            }
            FileLayout::WordFile(layout) => {
                let lines = LineReader::new(input, max);
                Box::new(WordFileReader::new(lines, layout.clone(), output.clone(), max))
            }
        };
        Self::new(file, source)
    }

    fn new(file: &Path, source: Box<dyn ExampleSource>) -> Self {
        Self { file: file.to_owned(), source, counts: ReadCounts::default(), has_ended: false }
    }

    /// Returns the counts up to the last call of `next`.
    pub fn counts(&self) -> ReadCounts {
        self.counts
    }
}

impl Iterator for ExampleReader {
    type Item = Result<Example, RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.has_ended {
            match self.source.step(self.counts.examples + self.counts.invalid) {
                ExampleStep::Example(example) => {
                    self.counts.examples += 1;
                    return Some(Ok(example));
                }
                ExampleStep::Invalid(error) => {
                    self.counts.invalid += 1;
                    self.has_ended = error.is_last;
                    return Some(Err(error.in_file(&self.file)));
                }
                ExampleStep::Blank => self.counts.blank += 1,
                ExampleStep::Dropped => self.counts.dropped += 1,
                ExampleStep::End => self.has_ended = true,
            }
        }
        None
    }
}

/// Rows of a table as examples.
struct TableSource {
    rows: Box<dyn RowReader>,
    builder: ExampleBuilder,
}

impl ExampleSource for TableSource {
    fn step(&mut self, number: u64) -> ExampleStep {
        match self.rows.step() {
            RowStep::Row(row) => {
                self.builder.build(row, number).map_or_else(ExampleStep::Invalid, ExampleStep::Example)
            }
            RowStep::Blank => ExampleStep::Blank,
            RowStep::Dropped => ExampleStep::Dropped,
            RowStep::Invalid(error) => ExampleStep::Invalid(error),
            RowStep::End => ExampleStep::End,
        }
    }
}

fn rows(lines: LineReader, table: &TableLayout, builder: &ExampleBuilder, max_bytes: usize) -> Box<dyn RowReader> {
    let requested = builder.requested();
    let TableLayout { has_header, width, .. } = *table;
    let quoted = |separator, requested| QuotedOptions { separator, max_bytes, requested, has_header, policy: width };
    match table.format {
        TableFormat::Tsv => Box::new(TsvReader::new(lines, requested, has_header, width)),
        TableFormat::QuotedTsv => Box::new(QuotedReader::new(lines, quoted(b'\t', requested))),
        TableFormat::Csv => Box::new(QuotedReader::new(lines, quoted(b',', requested))),
        TableFormat::Jsonl | TableFormat::Parquet => Box::new(JsonLineReader::new(lines, requested)),
    }
}

//! One segment of a part in the making: two open samples, their shards and the table of documents.

use std::thread::sleep;

use schemas::manifest::{CorpusReport, PackReport};
use schemas::{Document, Shard};
use store::Store;

use super::progress::Progress;
use super::record::{CommitRecord, Example, sparse, stem};
use super::stages::{Stage, Stopwatch};
use super::table::{Entry, TableWriter};
use super::unknowns::Unknowns;
use super::words;
use super::work::{Task, Work};
use crate::corpus::{Complaint, Found, Place, Reached, Reason, Room, TooMuch};
use crate::pack::{Packed, Packer};
use crate::sentences::Sentences;
use crate::shard::{ShardOptions, ShardWriter};
use crate::{Error, Result};

/// Complaints of a segment that may be worth a line in the log.
pub(super) const EXAMPLES: usize = 5;

/// Lines after which somebody is told, if nothing is wrong with them.
const LINES_TOLD: u64 = 256;

/// A document's text while it is tokenized, and the line that it was read from.
const TEXTS: u64 = 2;

/// Bytes of memory that the `tokenizers` crate takes for a byte of text that it is given as a whole: 180 to 200 were measured
/// with Chinese and WordPiece, where each character is a word.
const WHOLE_BYTES: u64 = 256;

/// The state of one segment.
pub(super) struct Segment<'a> {
    work: &'a Work,
    task: &'a Task,
    progress: &'a Progress,
    watch: &'a Stopwatch,
    number: u32,
    from: Place,
    sides: [Side; 2],
    table: Option<TableWriter>,
    report: CorpusReport,
    text_bytes: u64,
    lines: u64,
    examples: Vec<Complaint>,
    unknowns: Unknowns,
    counts: Vec<u64>,
    sentences: Sentences,
    /// Lines that were read, and what was wrong with them, since anybody was told.
    lines_untold: u64,
    untold: Vec<(String, String)>,
}

/// One side of the split: its open sample and its shards.
struct Side {
    packer: Packer,
    writer: Option<ShardWriter>,
    first_row: u32,
    rows: u64,
}

impl<'a> Segment<'a> {
    /// Begins the segment of that number at that place, behind so many rows of either side.
    pub(super) fn begin(
        (work, task): (&'a Work, &'a Task),
        (progress, watch): (&'a Progress, &'a Stopwatch),
        (number, from, first_rows): (u32, Place, [u32; 2]),
    ) -> Self {
        let facts = work.tokenizer.facts();
        let (config, vocab_size) = (&work.config, facts.manifest.vocab_size);
        let stem = stem(&task.part, number as usize);
        let side = |name: &str, first_row| Side {
            packer: Packer::new(&config.pack, config.tokens_max, facts.special()),
            writer: work.store().map(|store| {
                let options = ShardOptions {
                    part: task.part.id,
                    first_row,
                    prefix: format!("{name}/{stem}"),
                    vocab_size,
                    keeps_sentences: config.pack.keeps_sentences(),
                    zstd_level: config.zstd_level,
                };
                ShardWriter::new(store, options)
            }),
            first_row,
            rows: 0,
        };
        Self {
            work,
            task,
            progress,
            watch,
            number,
            from,
            sides: [side("train", first_rows[0]), side("valid", first_rows[1])],
            table: work.store().map(|store| TableWriter::new(store, format!("documents/{stem}.parquet"))),
            report: CorpusReport::default(),
            text_bytes: 0,
            lines: 0,
            examples: Vec::new(),
            unknowns: Unknowns::default(),
            counts: vec![0; vocab_size as usize],
            sentences: Sentences::default(),
            lines_untold: 0,
            untold: Vec::new(),
        }
    }

    /// Whether so much text was read that what was made of it is worth keeping.
    pub(super) fn is_full(&self) -> bool {
        self.text_bytes >= self.work.config.segment_bytes
    }

    /// Takes in a document, or what took its place.
    pub(super) fn take(&mut self, found: &Found, room: &Room) -> Result<()> {
        self.lines += 1;
        for complaint in &found.complaints {
            self.reject(*complaint);
        }
        match &found.document {
            Some(document) if self.task.omit.has(&document.id) => self.report.forgotten += 1,
            Some(document)
                if self.work.config.document_bytes_max.is_some_and(|most| document.text.len() as u64 > most) =>
            {
                self.reject(Complaint { reason: Reason::TooLong, piece: found.piece, line: found.line });
            }
            Some(document) => {
                self.make_room(found, document, room)?;
                self.pack(found, document)?;
            }
            None => {}
        }
        self.lines_untold += 1;
        if self.lines_untold >= LINES_TOLD || !self.untold.is_empty() {
            self.tell();
        }
        Ok(())
    }

    fn reject(&mut self, complaint: Complaint) {
        *self.report.rejected.entry(complaint.reason.to_string()).or_default() += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(complaint);
        }
        let place = self.work.corpus.words(&self.task.part, complaint);
        self.untold.push((complaint.reason.to_string(), place));
    }

    /// Says what was read since the last time.
    fn tell(&mut self) {
        self.progress.dirt().add(std::mem::take(&mut self.lines_untold), std::mem::take(&mut self.untold));
    }

    /// Waits for the memory that the tokenizer takes for a document beside its text, where that is much.
    fn make_room(&self, found: &Found, document: &Document, room: &Room) -> Result<()> {
        let text = &document.text;
        let bytes = text.len() as u64 * TEXTS;
        let whole = if room.is_short(bytes + text.len() as u64 * WHOLE_BYTES) {
            0
        } else {
            self.work.tokenizer.longest_piece(text) as u64
        };
        room.document(bytes + whole * WHOLE_BYTES).map_err(|TooMuch { wanted, most }| Error::Unfit {
            path: self.work.corpus.place(&self.task.part.pieces[found.piece]).to_owned(),
            line: Some(found.line + 1),
            message: format!(
                "the tokenizer takes {whole} bytes of this document as a whole, which needs some {wanted} of memory; \
                 {most} are allowed, 1/8 of `prepare.memory_max`: raise it, \
                 split the document, or set `prepare.document_bytes_max` below its {} bytes to leave such documents out",
                text.len()
            ),
        })
    }

    /// Tokenizes a document and packs it on its side.
    fn pack(&mut self, found: &Found, document: &Document) -> Result<()> {
        let Self { work, task, watch, counts, sides, sentences, .. } = self;
        let hash = Document::hash(&document.id);
        let valid = Document::is_valid(hash, work.config.valid_fraction);
        let Side { packer, writer, rows, first_row } = &mut sides[usize::from(valid)];
        let unknown_id = work.tokenizer.facts().special().unk;
        let place = work.corpus.place(&task.part.pieces[found.piece]).display();
        // No token has the id that stands for none.
        let counted_id = unknown_id.unwrap_or(u32::MAX);
        let (mut tokens, mut unknown) = (0_u64, 0);

        let mut sink = |sample: Packed<'_>| {
            *rows += 1;
            writer.as_mut().map_or(Ok(()), |writer| watch.during(Stage::Write, || writer.write(sample)))
        };
        packer.begin(hash, u16::try_from(found.piece).expect("a part has no more pieces than there are numbers"));
        let mut take = |ids: &[u32]| {
            watch.during(Stage::Pack, || {
                tokens += ids.len() as u64;
                unknown += ids.iter().filter(|&&id| id == counted_id).count() as u64;
                if !valid {
                    for &id in ids {
                        counts[id as usize] += 1;
                    }
                }
                packer.extend(ids, &mut sink)
            })
        };
        watch.during(Stage::Tokenize, || {
            if let Some(text) = work.sample.take(&document.text) {
                work.tokenizer.compare(text).map_err(|error| match error {
                    Error::Config(what) => Error::Config(format!("{place}:{}: {what}", found.line + 1)),
                    other => other,
                })?;
            }
            if work.config.pack.keeps_sentences() {
                let encoded = work.tokenizer.encode_runs(&document.text, sentences.starts(&document.text), &mut take);
                sentences.put_down();
                encoded
            } else {
                work.tokenizer.encode(&document.text, &mut take)
            }
        })?;
        let row = u64::from(*first_row) + packer.began();
        watch.during(Stage::Pack, || packer.end(&mut sink))?;
        self.progress.add_text(document.text.len(), tokens);
        self.text_bytes += document.text.len() as u64;
        if tokens == 0 {
            self.reject(Complaint { reason: Reason::EmptyDocument, piece: found.piece, line: found.line });
            return Ok(());
        }
        self.report.documents += 1;
        self.report.text_bytes += document.text.len() as u64;
        self.report.words += words::count(&document.text);
        self.report.tokens += tokens;
        self.report.unknown += unknown;
        if let (Some(id), 1..) = (unknown_id, unknown) {
            let Self { work, watch, unknowns, .. } = self;
            watch.during(Stage::Tokenize, || unknowns.look(&document.text, work.tokenizer.as_ref(), id))?;
        }
        self.enter(found, document, (hash, valid, row, tokens))
    }

    /// Writes the document into the table.
    fn enter(
        &mut self,
        found: &Found,
        document: &Document,
        (hash, valid, row, tokens): (u64, bool, u64, u64),
    ) -> Result<()> {
        let Some(table) = &mut self.table else { return Ok(()) };
        let entry = Entry {
            id: &document.id,
            document: hash,
            source: &self.task.part.pieces[found.piece].name,
            range: found.range.clone(),
            valid,
            row,
            tokens: u32::try_from(tokens).unwrap_or(u32::MAX),
        };
        table.add(&entry);
        if table.is_full() { self.watch.during(Stage::Write, || table.flush()) } else { Ok(()) }
    }

    /// Completes shards and table, then writes the record: from here on the segment is done. `read` are the pieces that
    /// were read to their ends in it, `next` is where the next segment begins. Returns the record, and the rows made.
    pub(super) fn commit(
        mut self,
        read: Vec<(usize, Reached)>,
        next: Option<Place>,
    ) -> Result<(CommitRecord, [u64; 2])> {
        self.tell();
        let Self { work, task, watch, .. } = self;
        let mut report = self.report;
        let first_rows = self.sides.each_ref().map(|side| side.first_row);
        let [train, valid] = self.sides;
        let finish = |side: Side| watch.during(Stage::Write, || side.finish());
        let ((train, train_rows, train_report), (valid, valid_rows, valid_report)) = (finish(train)?, finish(valid)?);
        report.packing.add(&train_report);
        report.packing.add(&valid_report);
        let documents = match self.table {
            Some(table) => watch.during(Stage::Write, || table.finish())?,
            None => None,
        };
        let example = |complaint: Complaint| Example {
            reason: complaint.reason.to_string(),
            piece: complaint.piece,
            line: complaint.line,
        };
        let record = CommitRecord {
            settings: work.settings.clone(),
            part: task.part.clone(),
            segment: self.number,
            forgotten: task.omit.name().to_owned(),
            from: self.from,
            first_rows,
            read,
            next,
            train,
            valid,
            documents,
            report,
            lines: self.lines,
            examples: self.examples.into_iter().map(example).collect(),
            unknown_words: self.unknowns.into_most_frequent(),
            counts: sparse(&self.counts),
        };
        watch.during(Stage::Write, || {
            sleep(work.options.write_delay);
            let put = |store: &Store| store.put(&record.file_name(), &schemas::Sealed::seal(&record)).map(drop);
            work.store().map_or(Ok(()), put)
        })?;
        Ok((record, [train_rows, valid_rows]))
    }
}

impl Side {
    /// Ends the open sample and the last shard. Returns the shards, the samples handed over and what packing cut.
    fn finish(self) -> Result<(Vec<Shard>, u64, PackReport)> {
        let Self { packer, mut writer, mut rows, .. } = self;
        let report = packer.finish(&mut |sample| {
            rows += 1;
            writer.as_mut().map_or(Ok(()), |writer| writer.write(sample))
        })?;
        Ok((writer.map_or(Ok(Vec::new()), ShardWriter::finish)?, rows, report))
    }
}

//! One segment of a part in the making: two open samples, their shards and the table of documents.

use std::mem::take;
use std::thread::sleep;

use schemas::Document;
use schemas::manifest::CorpusReport;
use store::Store;

use super::commit_record::{CommitRecord, Example, sparse, stem};
use super::document_table::{Entry, TableWriter};
use super::job::{Task, Work};
use super::progress::{Progress, Stage, Stopwatch};
use super::split_writer::{OpenDocument, PackedDocument, SplitWriter};
use super::text_batch::{Batch, DocumentRef};
use super::text_stats::{self, Unknowns};
use crate::corpus::{Complaint, Found, MemoryBudget, Place, Reached, RejectReason, ResourcesExhausted};
use crate::pack::Packer;
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
    sides: [SplitWriter; 2],
    table: Option<TableWriter>,
    report: CorpusReport,
    text_bytes: u64,
    lines: u64,
    examples: Vec<Complaint>,
    unknowns: Unknowns,
    counts: Vec<u64>,
    sentences: Sentences,
    batch: Batch,
    /// Lines that were read, and what was wrong with them, since anybody was told.
    lines_untold: u64,
    untold: Vec<(String, String)>,
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
        let side = |name: &str, first_row| {
            let packer = Packer::new(&config.packing, config.max_seq_len, facts.special());
            let writer = work.store().map(|store| {
                let options = ShardOptions {
                    part: task.part.id,
                    first_row,
                    prefix: format!("{name}/{stem}"),
                    vocab_size,
                    keeps_sentences: config.packing.keeps_sentences(),
                    zstd_level: config.zstd_level,
                };
                ShardWriter::new(store, options)
            });
            SplitWriter::new(packer, writer, first_row)
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
            batch: Batch::default(),
            lines_untold: 0,
            untold: Vec::new(),
        }
    }

    /// Whether so much text was read that what was made of it is worth keeping.
    pub(super) fn is_full(&self) -> bool {
        self.text_bytes >= self.work.config.segment_bytes
    }

    /// Takes in a document, or what took its place.
    pub(super) fn take(&mut self, found: &Found, room: &MemoryBudget) -> Result<()> {
        self.lines += 1;
        if !found.complaints.is_empty() {
            // In the order in which they were found.
            self.pack_waiting()?;
        }
        for complaint in &found.complaints {
            self.reject(*complaint);
        }
        if let Some(document) = &found.document {
            let Document { id, text } = document;
            self.take_document(
                &DocumentRef { id, text, piece: found.piece, line: found.line, range: found.range.clone() },
                room,
            )?;
        }
        self.lines_untold += 1;
        if self.lines_untold >= LINES_TOLD || !self.untold.is_empty() {
            self.tell();
        }
        Ok(())
    }

    fn take_document(&mut self, document: &DocumentRef<'_>, room: &MemoryBudget) -> Result<()> {
        let DocumentRef { id, text, piece, line, .. } = *document;
        if self.task.omit.has(id) {
            self.report.forgotten += 1;
            return Ok(());
        }
        if self.work.config.max_document_bytes.is_some_and(|most| text.len() as u64 > most) {
            self.pack_waiting()?;
            self.reject(Complaint { reason: RejectReason::TooLong, piece, line });
            return Ok(());
        }
        self.text_bytes += text.len() as u64;
        if self.may_wait(document, room) {
            self.compare(document)?;
            self.batch.push(document);
            return if self.batch.is_full() { self.pack_waiting() } else { Ok(()) };
        }
        self.pack_waiting()?;
        self.make_room(document, room)?;
        self.compare(document)?;
        self.pack(document)
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

    /// Waits for the memory that the tokenizer takes for a document next to its text, where that is much.
    fn make_room(&self, document: &DocumentRef<'_>, room: &MemoryBudget) -> Result<()> {
        let text = document.text;
        let bytes = text.len() as u64 * TEXTS;
        let whole = if room.is_short(bytes + text.len() as u64 * WHOLE_BYTES) {
            0
        } else {
            self.work.tokenizer.longest_piece(text) as u64
        };
        room.document(bytes + whole * WHOLE_BYTES).map_err(|ResourcesExhausted { wanted, most }| Error::Unfit {
            path: self.work.corpus.place(&self.task.part.pieces[document.piece]).to_owned(),
            line: Some(document.line + 1),
            message: format!(
                "the tokenizer takes {whole} bytes of this document as a whole, which needs some {wanted} of memory; \
                 {most} are allowed, 1/8 of `prepare.max_memory_bytes`: raise it, \
                 split the document, or set `prepare.max_document_bytes` below its {} bytes to leave such documents out",
                text.len()
            ),
        })
    }

    /// Whether a document may wait until there are more to be tokenized with it.
    fn may_wait(&self, document: &DocumentRef<'_>, room: &MemoryBudget) -> bool {
        !self.work.config.packing.keeps_sentences()
            && Batch::is_short(document)
            && room.is_short(document.text.len() as u64 * (TEXTS + WHOLE_BYTES))
    }

    /// Stops if the fast path makes other ids than the crate of a document that is among those which are compared.
    fn compare(&self, document: &DocumentRef<'_>) -> Result<()> {
        let Self { work, task, watch, .. } = *self;
        let Some(text) = work.sample.take(document.text) else { return Ok(()) };
        watch.during(Stage::Tokenize, || work.tokenizer.compare(text)).map_err(|error| match error {
            Error::Config(what) => {
                let place = work.corpus.place(&task.part.pieces[document.piece]).display();
                Error::Config(format!("{place}:{}: {what}", document.line + 1))
            }
            other => other,
        })
    }

    /// Tokenizes a document and packs it on its side, piece by piece.
    fn pack(&mut self, document: &DocumentRef<'_>) -> Result<()> {
        let Self { work, watch, .. } = *self;
        let mut sentences = take(&mut self.sentences);
        let (side, mut open) = self.open(document);
        let mut take = |ids: &[u32]| watch.during(Stage::Pack, || open.take(ids));
        watch.during(Stage::Tokenize, || {
            if work.config.packing.keeps_sentences() {
                work.tokenizer.encode_runs(document.text, sentences.starts(document.text), &mut take)
            } else {
                work.tokenizer.encode(document.text, &mut take)
            }
        })?;
        let came = watch.during(Stage::Pack, || open.end())?;
        sentences.put_down();
        self.sentences = sentences;
        self.progress.add_text(document.text.len(), came.tokens);
        watch.during(Stage::Pack, || self.enter(document, side, came))
    }

    /// Tokenizes and packs the documents that wait for it.
    fn pack_waiting(&mut self) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let Self { work, watch, .. } = *self;
        let mut batch = take(&mut self.batch);
        watch.during(Stage::Tokenize, || batch.tokenize(work.tokenizer.as_ref()))?;
        self.progress.add_text(batch.text_bytes(), batch.tokens());
        watch.during(Stage::Pack, || {
            batch.documents().try_for_each(|(document, ids)| {
                let (side, mut open) = self.open(&document);
                open.take(ids)?;
                let came = open.end()?;
                self.enter(&document, side, came)
            })
        })?;
        batch.clear();
        self.batch = batch;
        Ok(())
    }

    /// Begins a document on its side. Returns what shards call it, and whether it is one to validate on, too.
    fn open(&mut self, document: &DocumentRef<'_>) -> ((u64, bool), OpenDocument<'_>) {
        let Self { work, watch, sides, counts, .. } = self;
        let name = Document::hash(document.id);
        let valid = Document::is_valid(name, work.config.valid_fraction);
        let source = u16::try_from(document.piece).expect("a part has no more pieces than there are numbers");
        let unknown_id = work.tokenizer.facts().special().unk;
        // Only what is trained on is counted.
        let counts = (!valid).then_some(counts.as_mut_slice());
        ((name, valid), sides[usize::from(valid)].begin((name, source), watch, unknown_id, counts))
    }

    /// Writes down what a document came to.
    fn enter(&mut self, document: &DocumentRef<'_>, (name, valid): (u64, bool), came: PackedDocument) -> Result<()> {
        let DocumentRef { id, text, piece, line, ref range } = *document;
        let PackedDocument { row, tokens, unknown } = came;
        if tokens == 0 {
            self.reject(Complaint { reason: RejectReason::EmptyDocument, piece, line });
            return Ok(());
        }
        self.report.documents += 1;
        self.report.text_bytes += text.len() as u64;
        self.report.words += text_stats::count_words(text);
        self.report.tokens += tokens;
        self.report.unknown += unknown;
        let Self { work, task, watch, unknowns, table, .. } = self;
        if let (Some(unknown_id), 1..) = (work.tokenizer.facts().special().unk, unknown) {
            watch.during(Stage::Tokenize, || unknowns.look(text, work.tokenizer.as_ref(), unknown_id))?;
        }
        let Some(table) = table else { return Ok(()) };
        table.add(&Entry {
            id,
            document: name,
            source: &task.part.pieces[piece].name,
            range: range.clone(),
            valid,
            row,
            tokens: u32::try_from(tokens).unwrap_or(u32::MAX),
        });
        if table.is_full() { watch.during(Stage::Write, || table.flush()) } else { Ok(()) }
    }

    /// Completes shards and table, then writes the record: from here on the segment is done. `read` are the pieces that
    /// were read to their ends in it, `next` is where the next segment begins. Returns the record, and the rows made.
    pub(super) fn commit(
        mut self,
        read: Vec<(usize, Reached)>,
        next: Option<Place>,
    ) -> Result<(CommitRecord, [u64; 2])> {
        self.pack_waiting()?;
        self.tell();
        let Self { work, task, watch, .. } = self;
        let mut report = self.report;
        let first_rows = self.sides.each_ref().map(SplitWriter::first_row);
        let [train, valid] = self.sides;
        let finish = |side: SplitWriter| watch.during(Stage::Write, || side.finish());
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

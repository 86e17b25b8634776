//! Segment of a part under construction: two open samples, their shards and the table of documents.

use std::cell::RefCell;
use std::mem::take;
use std::thread::sleep;

use schemas::Document;
use schemas::manifest::CorpusReport;
use schemas::sample::ROWS_PER_GROUP;

use super::commit_record::{CommitRecord, ContaminatedExample, Example, sparse, stem};
use super::document_table::{Entry, TableWriter};
use super::estimate::{SegmentSample, SplitSample};
use super::job::{PrepareJob, Task};
use super::partners::PartnerReader;
use super::pending_commit::PendingCommit;
use super::progress::{Progress, Stage, Stopwatch};
use super::removal::{Removal, Remover};
use super::removal_config::DuplicatesConfig;
use super::removed_documents::RemovedWriter;
use super::split_writer::{OpenDocument, PackedDocument, SplitWriter};
use super::text_batch::{Batch, DocumentRef};
use super::text_rules::{FilterRemoval, RuleCounts, TextPlace};
use super::text_stats::{self, UnknownWords};
use super::verdicts::PartVerdicts;
use crate::corpus::{Complaint, DocumentPlace, Found, MemoryBudget, PieceEnd, RejectReason, ResourcesExhausted};
use crate::pack::Packer;
use crate::sentences::Sentences;
use crate::shard::ShardWriter;
use crate::{Error, Result};

/// Maximum number of rejects of a segment that are recorded for the log.
pub(super) const EXAMPLES: usize = 5;

/// Interval of lines after which counts are reported if none is rejected.
const REPORT_LINES: u64 = 256;

/// Copies of a document's text during tokenization: the text and the line it was read from.
const TEXTS: u64 = 2;

/// Bytes of memory that the `tokenizers` crate needs per byte of text without a split. 180 to 200 were measured with
/// Chinese and WordPiece, where each character is a word.
const WHOLE_BYTES: u64 = 256;

/// State of one segment.
pub(super) struct Segment<'a> {
    work: &'a PrepareJob,
    task: &'a Task,
    progress: &'a Progress,
    stopwatch: &'a Stopwatch,
    number: u32,
    from: DocumentPlace,
    splits: [SplitWriter; 2],
    table: Option<TableWriter>,
    report: CorpusReport,
    text_bytes: u64,
    lines: u64,
    examples: Vec<Complaint>,
    filtered: RuleCounts,
    remover: Remover<'a>,
    contaminated: Vec<ContaminatedExample>,
    /// Lines of removed documents, if they are listed.
    removed: Option<RemovedWriter<'a>>,
    unknowns: UnknownWords,
    counts: Vec<u64>,
    sentences: Sentences,
    batch: Batch,
    /// Counts for the estimate, in a dry run.
    sample: Option<SegmentSample>,
    /// Lines and rejects that are not reported yet.
    unreported_lines: u64,
    unreported: Vec<(String, String)>,
}

/// Complete segment that is not committed.
pub(super) struct FinishedSegment {
    pub(super) record: CommitRecord,
    /// Number of samples of each split.
    pub(super) rows: [u64; 2],
    pub(super) commit: PendingCommit,
}

/// Document that was begun in its split.
struct OpenedDocument<'a> {
    /// Name of the document in shards.
    name: u64,
    /// True if it belongs to the validation split.
    valid: bool,
    open: OpenDocument<'a>,
}

impl<'a> Segment<'a> {
    /// Begins a segment with that number and place. The counts are the earlier rows of each split.
    pub(super) fn begin(
        work: &'a PrepareJob,
        task: &'a Task,
        progress: &'a Progress,
        watch: &'a Stopwatch,
        number: u32,
        from: DocumentPlace,
        first_rows: [u32; 2],
    ) -> Self {
        let facts = work.tools.tokenizer.facts();
        let config = &work.config;
        let vocab_size = facts.manifest.vocab_size;
        let stem = stem(&task.part, number as usize);
        let side = |name: &str, first_row| {
            let packer = Packer::new(&config.packing, config.max_seq_len, facts.special());
            let options = || work.shard_options(task.part.id, first_row, format!("{name}/{stem}"));
            match (work.store(), &work.dry_run) {
                (None, Some(dry_run)) => {
                    let writer = ShardWriter::new(&dry_run.scratch, options());
                    SplitWriter::new(packer, Some(writer), first_row).writing_at_most(ROWS_PER_GROUP as u64)
                }
                (store, _) => {
                    let writer = store.map(|store| ShardWriter::new(store, options()));
                    SplitWriter::new(packer, writer, first_row)
                }
            }
        };
        Self {
            work,
            task,
            progress,
            stopwatch: watch,
            number,
            from,
            splits: [side("train", first_rows[0]), side("valid", first_rows[1])],
            table: work.store().map(|store| TableWriter::new(store, format!("documents/{stem}.parquet"))),
            report: CorpusReport { contaminated: work.tools.without_shared_runs(), ..CorpusReport::default() },
            text_bytes: 0,
            lines: 0,
            examples: Vec::new(),
            filtered: RuleCounts::new(&work.tools.rules),
            remover: Remover::new(work.tools.test_sets.as_ref()),
            contaminated: Vec::new(),
            removed: work.store().filter(|_| config.write_removed).map(|store| {
                let near = config.duplicates.as_ref().and_then(DuplicatesConfig::near_options);
                RemovedWriter::new(store, &task.part, &stem, near)
            }),
            unknowns: UnknownWords::default(),
            counts: vec![0; vocab_size as usize],
            sentences: Sentences::default(),
            batch: Batch::default(),
            sample: work.dry_run.as_ref().map(|_| SegmentSample::default()),
            unreported_lines: 0,
            unreported: Vec::new(),
        }
    }

    /// Removes duplicates by the verdicts on the part. `partners` are those of the removed documents, if they are listed.
    #[must_use]
    pub(super) fn without_duplicates(
        mut self,
        verdicts: &'a PartVerdicts,
        partners: Option<&'a RefCell<PartnerReader>>,
    ) -> Self {
        self.remover.verdicts = Some(verdicts);
        if let Some(removed) = &mut self.removed {
            removed.set_partners(partners);
        }
        self
    }

    /// Whether enough text was read to commit the segment.
    pub(super) fn is_full(&self) -> bool {
        self.text_bytes >= self.work.config.segment_bytes
    }

    /// Processes a document or a reject.
    pub(super) fn process(&mut self, found: &Found, room: &MemoryBudget) -> Result<()> {
        self.lines += 1;
        if !found.complaints.is_empty() {
            // Documents keep the order in which they were found.
            self.pack_waiting()?;
        }
        for complaint in &found.complaints {
            self.reject(*complaint);
        }
        let is_sampled = self.work.options.samples(&self.task.part, found, self.work.config.seed);
        if let (Some(sample), Some(document)) = (&mut self.sample, &found.document) {
            sample.add(&document.text, is_sampled);
            // The limit of bad lines is for the corpus, so it needs the long documents outside the sample too.
            let is_long = !is_sampled && !self.work.accepts_length(&document.text);
            if is_long && !self.task.forgotten.contains(&document.id) {
                self.reject(Complaint { reason: RejectReason::TooLong, piece: found.piece, line: found.line });
            }
        }
        if let Some(Document { id, text }) = found.document.as_ref().filter(|_| is_sampled) {
            self.take_document(
                &DocumentRef { id, text, piece: found.piece, line: found.line, range: found.range.clone() },
                room,
            )?;
        }
        self.unreported_lines += 1;
        if self.unreported_lines >= REPORT_LINES || !self.unreported.is_empty() {
            self.report_lines();
        }
        Ok(())
    }

    fn take_document(&mut self, document: &DocumentRef<'_>, room: &MemoryBudget) -> Result<()> {
        let DocumentRef { id, text, piece, line, .. } = *document;
        if self.task.forgotten.contains(id) {
            self.report.forgotten += 1;
            return Ok(());
        }
        if !self.work.accepts_length(text) {
            self.pack_waiting()?;
            self.reject(Complaint { reason: RejectReason::TooLong, piece, line });
            return Ok(());
        }
        self.text_bytes += text.len() as u64;
        match self.work.filter(text, TextPlace { piece, line }, &mut self.filtered, room) {
            Ok(text) => self.accept(&DocumentRef { text: &text, range: document.range.clone(), ..*document }, room),
            Err(FilterRemoval { step, reason }) => match &mut self.removed {
                Some(removed) => removed.add_filtered(document, self.filtered.name(step), &reason),
                None => Ok(()),
            },
        }
    }

    /// Tokenizes a document that the filters keep, or adds it to those that wait, unless it is a duplicate or contaminated.
    fn accept(&mut self, document: &DocumentRef<'_>, room: &MemoryBudget) -> Result<()> {
        if self.remove(document)? {
            return Ok(());
        }
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

    /// Counts a document that is a duplicate or shares text with a test set. Returns false for other documents.
    fn remove(&mut self, document: &DocumentRef<'_>) -> Result<bool> {
        let DocumentRef { text, piece, line, .. } = *document;
        let removal = self.remover.find(piece, document.range.start, text, &mut self.report);
        if removal == Removal::None {
            return Ok(false);
        }
        if let Some(removed) = &mut self.removed {
            removed.add(document, &removal)?;
        }
        match removal {
            Removal::Contaminated { test_set, run } if self.contaminated.len() < EXAMPLES => {
                self.contaminated.push(ContaminatedExample { test_set, run, piece, line });
            }
            Removal::None | Removal::Duplicate { .. } | Removal::Contaminated { .. } => {}
        }
        Ok(true)
    }

    fn reject(&mut self, complaint: Complaint) {
        *self.report.rejected.entry(complaint.reason.to_string()).or_default() += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(complaint);
        }
        let place = self.work.corpus.describe(&self.task.part, complaint);
        self.unreported.push((complaint.reason.to_string(), place));
    }

    /// Reports the lines since the last call.
    fn report_lines(&mut self) {
        self.progress
            .reject_stats()
            .add(std::mem::take(&mut self.unreported_lines), std::mem::take(&mut self.unreported));
    }

    /// Waits for the memory that the tokenizer needs in addition to the text, if it is large.
    fn make_room(&self, document: &DocumentRef<'_>, room: &MemoryBudget) -> Result<()> {
        let text = document.text;
        let bytes = text.len() as u64 * TEXTS;
        let whole = if room.is_short(bytes + text.len() as u64 * WHOLE_BYTES) {
            0
        } else {
            self.work.tools.tokenizer.longest_piece(text) as u64
        };
        room.document(bytes + whole * WHOLE_BYTES).map_err(|ResourcesExhausted { wanted, most }| Error::UnusableFile {
            path: self.work.corpus.path(&self.task.part.pieces[document.piece]).to_owned(),
            line: Some(document.line + 1),
            message: format!(
                "the tokenizer takes {whole} bytes of this document at once, which needs about {wanted} of memory; \
                 {most} are allowed, 1/8 of `prepare.max_memory_bytes`: raise it, \
                 split the document, or set `prepare.max_document_bytes` below its {} bytes to skip such documents",
                text.len()
            ),
        })
    }

    /// Whether a document can wait for more documents to be tokenized with it.
    fn may_wait(&self, document: &DocumentRef<'_>, room: &MemoryBudget) -> bool {
        !self.work.config.packing.keeps_sentences()
            && Batch::is_short(document)
            && room.is_short(document.text.len() as u64 * (TEXTS + WHOLE_BYTES))
    }

    /// Fails if the fast tokenizer and the reference give different ids for a document of the compared sample.
    fn compare(&self, document: &DocumentRef<'_>) -> Result<()> {
        let Self { work, task, stopwatch: watch, .. } = *self;
        let Some(text) = work.sample.select(document.text) else { return Ok(()) };
        watch.during(Stage::Tokenize, || work.tools.tokenizer.compare(text)).map_err(|error| match error {
            Error::Config(what) => {
                let place = work.corpus.path(&task.part.pieces[document.piece]).display();
                Error::Config(format!("{place}:{}: {what}", document.line + 1))
            }
            other => other,
        })
    }

    /// Tokenizes a document and packs it into its split, piece by piece.
    fn pack(&mut self, document: &DocumentRef<'_>) -> Result<()> {
        let Self { work, stopwatch: watch, .. } = *self;
        let mut sentences = take(&mut self.sentences);
        let OpenedDocument { name, valid, mut open } = self.open(document);
        let mut take = |ids: &[u32]| watch.during(Stage::Pack, || open.append(ids));
        watch.during(Stage::Tokenize, || {
            if work.config.packing.keeps_sentences() {
                work.tools.tokenizer.encode_runs(document.text, sentences.starts(document.text), &mut take)
            } else {
                work.tools.tokenizer.encode(document.text, &mut take)
            }
        })?;
        let came = watch.during(Stage::Pack, || open.end())?;
        sentences.release();
        self.sentences = sentences;
        self.progress.add_text(document.text.len(), came.tokens);
        watch.during(Stage::Pack, || self.add_to_table(document, name, valid, came))
    }

    /// Tokenizes and packs the waiting documents.
    fn pack_waiting(&mut self) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let Self { work, stopwatch: watch, .. } = *self;
        let mut batch = take(&mut self.batch);
        watch.during(Stage::Tokenize, || batch.tokenize(work.tools.tokenizer.as_ref()))?;
        self.progress.add_text(batch.text_bytes(), batch.tokens());
        watch.during(Stage::Pack, || {
            batch.documents().try_for_each(|(document, ids)| {
                let OpenedDocument { name, valid, mut open } = self.open(&document);
                open.append(ids)?;
                let came = open.end()?;
                self.add_to_table(&document, name, valid, came)
            })
        })?;
        batch.clear();
        self.batch = batch;
        Ok(())
    }

    /// Begins a document in its split.
    fn open(&mut self, document: &DocumentRef<'_>) -> OpenedDocument<'_> {
        let Self { work, stopwatch: watch, splits: sides, counts, .. } = self;
        let name = Document::hash(document.id);
        let valid = Document::is_valid(name, work.config.valid_fraction);
        let source = u16::try_from(document.piece).expect("a part has no more pieces than there are numbers");
        let unknown_id = work.tools.tokenizer.facts().special().unk;
        // Token counts cover the training split only.
        let counts = (!valid).then_some(counts.as_mut_slice());
        let open = sides[usize::from(valid)].begin(name, source, watch, unknown_id, counts);
        OpenedDocument { name, valid, open }
    }

    /// Adds a packed document to the table.
    fn add_to_table(
        &mut self,
        document: &DocumentRef<'_>,
        name: u64,
        valid: bool,
        packed: PackedDocument,
    ) -> Result<()> {
        let DocumentRef { id, text, piece, line, ref range } = *document;
        let PackedDocument { row, tokens, unknown } = packed;
        if tokens == 0 {
            self.reject(Complaint { reason: RejectReason::EmptyDocument, piece, line });
            return Ok(());
        }
        self.report.documents += 1;
        self.report.text_bytes += text.len() as u64;
        self.report.words += text_stats::count_words(text);
        self.report.tokens += tokens;
        self.report.unknown += unknown;
        let Self { work, task, stopwatch: watch, unknowns, table, .. } = self;
        if let (Some(unknown_id), 1..) = (work.tools.tokenizer.facts().special().unk, unknown) {
            watch.during(Stage::Tokenize, || unknowns.add_text(text, work.tools.tokenizer.as_ref(), unknown_id))?;
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

    /// Completes shards, table and record. `read` lists the pieces that were read to their ends; `next` is the start of the
    /// next segment.
    pub(super) fn finish(
        mut self,
        read: Vec<(usize, PieceEnd)>,
        next: Option<DocumentPlace>,
    ) -> Result<FinishedSegment> {
        self.pack_waiting()?;
        self.report_lines();
        let Self { work, task, stopwatch: watch, .. } = self;
        let mut report = self.report;
        let first_rows = self.splits.each_ref().map(SplitWriter::first_row);
        let [train, valid] = self.splits;
        let finish = |side: SplitWriter| watch.during(Stage::Write, || side.finish(watch));
        let mut train = finish(train)?;
        let mut valid = finish(valid)?;
        if let (Some(mut sample), Some(dry_run)) = (self.sample, &work.dry_run) {
            // The shards of a dry run are measured and discarded.
            sample.splits = [&mut train, &mut valid].map(SplitSample::measure);
            dry_run.add(task.part.id, self.number, sample);
        }
        let (filters, filtered) = self.filtered.finish();
        report.filters = filters;
        report.packing.add(&train.report);
        report.packing.add(&valid.report);
        let table = self.table.map_or(Ok(None), |table| watch.during(Stage::Write, || table.finish()))?;
        let (documents, table) = table.unzip();
        let removed = self.removed.map_or(Ok(None), |lines| watch.during(Stage::Write, || lines.finish()))?;
        let (removed, lines) = removed.unzip();
        let example = |complaint: Complaint| Example {
            reason: complaint.reason.to_string(),
            piece: complaint.piece,
            line: complaint.line,
        };
        let record = CommitRecord {
            settings: work.settings.clone(),
            part: task.part.clone(),
            segment: self.number,
            forgotten: task.forgotten.name().to_owned(),
            verdicts: work.verdict_digest(task.part.id).to_owned(),
            from: self.from,
            first_rows,
            read,
            next,
            train: train.shards,
            valid: valid.shards,
            documents,
            removed,
            report,
            lines: self.lines,
            examples: self.examples.into_iter().map(example).collect(),
            filtered,
            contaminated: self.contaminated,
            unknown_words: self.unknowns.into_most_frequent(),
            counts: sparse(&self.counts),
        };
        let objects = [train.last, valid.last, table, lines].into_iter().flatten().collect();
        let commit = watch.during(Stage::Write, || {
            sleep(work.options.write_delay);
            PendingCommit::new(work.store(), objects, &record)
        });
        Ok(FinishedSegment { record, rows: [train.rows, valid.rows], commit })
    }
}

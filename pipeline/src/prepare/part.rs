//! Part ↦ shards: read, tokenize, pack, write, in one thread.

use std::cell::Cell;
use std::thread::sleep;
use std::time::{Duration, Instant};

use schemas::atomic::Folder;
use schemas::manifest::CorpusReport;
use schemas::{Document, PartId};
use tracing::warn;

use super::record::{CommitRecord, Example, Missing, sparse};
use super::{Preparation, PrepareOptions, Progress};
use crate::Result;
use crate::corpus::{Complaint, Found, Part, Reason};
use crate::pack::{Packed, Packer};
use crate::sentences;
use crate::shard::ShardWriter;

/// Complaints that are worth a line in the log.
const EXAMPLES: usize = 5;

/// What a part came to: its record, and what is not for the record.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) record: CommitRecord,
    /// Whether it was made now, or found.
    pub(super) made: bool,
    pub(super) stages: Stages,
    /// Samples made now, when nothing was written that could be counted.
    pub(super) rows: u64,
}

/// The stages of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reading, decompressing, cleaning and counting words.
    Read,
    /// Text to ids.
    Tokenize,
    /// Ids to samples.
    Pack,
    /// Samples to Parquet on disk.
    Write,
}

/// Busy time of each stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// In [`Stage::Read`].
    pub read: Duration,
    /// In [`Stage::Tokenize`].
    pub tokenize: Duration,
    /// In [`Stage::Pack`].
    pub pack: Duration,
    /// In [`Stage::Write`].
    pub write: Duration,
}

impl Stages {
    /// Adds another part's times.
    pub fn add(&mut self, other: &Self) {
        self.read += other.read;
        self.tokenize += other.tokenize;
        self.pack += other.pack;
        self.write += other.write;
    }

    /// The stage that takes most of the time.
    #[must_use]
    pub fn slowest(&self) -> Stage {
        let stages = [
            (self.read, Stage::Read),
            (self.tokenize, Stage::Tokenize),
            (self.pack, Stage::Pack),
            (self.write, Stage::Write),
        ];
        stages.into_iter().max_by_key(|&(time, _)| time).map_or(Stage::Read, |(_, stage)| stage)
    }
}

/// A clock that always runs for one stage.
#[derive(Debug)]
struct Stopwatch {
    now: Cell<Stage>,
    since: Cell<Instant>,
    stages: Cell<Stages>,
}

impl Stopwatch {
    fn start(stage: Stage) -> Self {
        Self { now: Cell::new(stage), since: Cell::new(Instant::now()), stages: Cell::default() }
    }

    /// Runs `work` on the clock of `stage`, then goes back to the one before.
    fn during<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let before = self.switch(stage);
        let value = work();
        self.switch(before);
        value
    }

    fn switch(&self, stage: Stage) -> Stage {
        let now = Instant::now();
        let mut stages = self.stages.get();
        let clock = match self.now.get() {
            Stage::Read => &mut stages.read,
            Stage::Tokenize => &mut stages.tokenize,
            Stage::Pack => &mut stages.pack,
            Stage::Write => &mut stages.write,
        };
        *clock += now - self.since.replace(now);
        self.stages.set(stages);
        self.now.replace(stage)
    }

    fn read(&self) -> Stages {
        self.switch(self.now.get());
        self.stages.get()
    }
}

/// Finds the part's record, or makes the part and commits it. Without a folder, throws the samples away.
pub(super) fn make(
    preparation: &Preparation,
    part: &Part,
    folder: Option<&Folder>,
    options: PrepareOptions,
    progress: &Progress,
) -> Result<Outcome> {
    let found = folder.map_or(Err(Missing::Never), |folder| CommitRecord::read(folder, part));
    if let Err(Missing::Damaged(reason)) = &found {
        warn!(part = part.index, reason, "making this part again");
    }
    let outcome = match found {
        Ok(record) => Outcome { record, made: false, stages: Stages::default(), rows: 0 },
        Err(_) => PartMaker::new(preparation, part, folder, options, progress).make()?,
    };
    progress.finish_part(part);
    Ok(outcome)
}

/// The state of one part in the making.
struct PartMaker<'a> {
    preparation: &'a Preparation,
    part: &'a Part,
    folder: Option<&'a Folder>,
    options: PrepareOptions,
    progress: &'a Progress,
    watch: Stopwatch,
    train: Side,
    valid: Side,
    report: CorpusReport,
    lines: u64,
    examples: Vec<Complaint>,
    counts: Vec<u64>,
}

/// One side: its open sample and its shards.
struct Side {
    packer: Packer,
    writer: Option<ShardWriter>,
    rows: u64,
}

impl<'a> PartMaker<'a> {
    fn new(
        preparation: &'a Preparation,
        part: &'a Part,
        folder: Option<&'a Folder>,
        options: PrepareOptions,
        progress: &'a Progress,
    ) -> Self {
        let facts = preparation.tokenizer.facts();
        let (config, size) = (&preparation.config, facts.manifest.vocab_size);
        let split = |name: &str| Side {
            packer: Packer::new(&config.pack, config.tokens_max, facts.special()),
            writer: folder.map(|folder| {
                let prefix = format!("{name}/part-{:05}", part.index);
                let (part, sentences) = (PartId(part.index), config.pack.keeps_sentences());
                ShardWriter::new(folder, part, prefix, size, sentences, config.zstd_level)
            }),
            rows: 0,
        };
        Self {
            preparation,
            part,
            folder,
            options,
            progress,
            watch: Stopwatch::start(Stage::Read),
            train: split("train"),
            valid: split("valid"),
            report: CorpusReport::default(),
            lines: 0,
            examples: Vec::new(),
            counts: vec![0; size as usize],
        }
    }

    fn make(mut self) -> Result<Outcome> {
        for found in self.preparation.corpus.documents(self.part) {
            let Found { document, complaints } = found?;
            self.lines += 1;
            for complaint in complaints {
                self.complain(complaint);
            }
            if let Some((hash, document)) = document {
                self.take(hash, &document)?;
            }
        }
        self.commit()
    }

    fn complain(&mut self, complaint: Complaint) {
        *self.report.rejected.entry(complaint.reason.to_string()).or_default() += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(complaint);
        }
    }

    /// Tokenizes a document and packs it on its side.
    fn take(&mut self, hash: u64, document: &Document) -> Result<()> {
        let Self { preparation, watch, counts, .. } = self;
        let is_valid = Document::is_valid(hash, preparation.config.valid_fraction);
        let Side { packer, writer, rows } = if is_valid { &mut self.valid } else { &mut self.train };
        let unknown_id = preparation.tokenizer.facts().special().unk;
        let (mut tokens, mut unknown) = (0, 0);

        let mut sink = |sample: Packed<'_>| {
            *rows += 1;
            writer.as_mut().map_or(Ok(()), |writer| watch.during(Stage::Write, || writer.write(sample)))
        };
        packer.begin(hash, document.source);
        let mut take = |ids: &[u32]| {
            watch.during(Stage::Pack, || {
                tokens += ids.len() as u64;
                unknown += ids.iter().filter(|&&id| Some(id) == unknown_id).count() as u64;
                if !is_valid {
                    for &id in ids {
                        counts[id as usize] += 1;
                    }
                }
                packer.extend(ids, &mut sink)
            })
        };
        watch.during(Stage::Tokenize, || {
            if preparation.config.pack.keeps_sentences() {
                let starts = sentences::starts(&document.text);
                preparation.tokenizer.encode_runs(&document.text, &starts, &mut take)
            } else {
                preparation.tokenizer.encode(&document.text, &mut take)
            }
        })?;
        watch.during(Stage::Pack, || packer.end(&mut sink))?;
        self.progress.add_text(document.text.len(), tokens);
        if tokens == 0 {
            *self.report.rejected.entry(Reason::EmptyDocument.to_string()).or_default() += 1;
            return Ok(());
        }
        self.report.documents += 1;
        self.report.text_bytes += document.text.len() as u64;
        self.report.words += document.text.split_whitespace().count() as u64;
        self.report.tokens += tokens;
        self.report.unknown += unknown;
        Ok(())
    }

    /// Completes the shards, then writes the record.
    fn commit(self) -> Result<Outcome> {
        let Self { preparation, part, folder, options, watch, .. } = self;
        let mut report = self.report;
        let mut shards = |split: Side| {
            let Side { packer, mut writer, mut rows } = split;
            watch.during(Stage::Write, || {
                let packing = packer.finish(&mut |sample| {
                    rows += 1;
                    writer.as_mut().map_or(Ok(()), |writer| writer.write(sample))
                })?;
                report.packing.add(&packing);
                Ok::<_, crate::Error>((writer.map_or(Ok(Vec::new()), ShardWriter::finish)?, rows))
            })
        };
        let ((train, train_rows), (valid, valid_rows)) = (shards(self.train)?, shards(self.valid)?);
        let example = |complaint: &Complaint| {
            let line = preparation.corpus.line(part, complaint)?;
            Ok(Example { reason: complaint.reason.to_string(), piece: complaint.piece, line })
        };
        let record = CommitRecord {
            part: part.clone(),
            settings: preparation.settings.clone(),
            train,
            valid,
            report,
            lines: self.lines,
            examples: self.examples.iter().map(example).collect::<Result<_>>()?,
            counts: sparse(&self.counts),
            checksum: String::new(),
        };
        watch.during(Stage::Write, || {
            sleep(options.write_delay);
            folder.map_or(Ok(()), |folder| record.write(folder))
        })?;
        Ok(Outcome { record, made: true, stages: watch.read(), rows: train_rows + valid_rows })
    }
}

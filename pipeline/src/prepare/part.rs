//! Conversion of a part to segments: read, tokenize, pack and write, in one thread.

use std::cell::RefCell;

use runtime::spans::SPANS;
use runtime::{CancelToken, add_held};
use schemas::DatasetVersion;
use store::{Lock, Store};
use telemetry::preparation::PartDone;
use tracing::{trace_span, warn};

use super::commit_record::{CommitRecord, FoundPart};
use super::fingerprints::Fingerprints;
use super::job::{PartAccess, PrepareJob, Task};
use super::leases;
use super::listing::ObjectListing;
use super::partners::PartnerReader;
use super::pending_commit::PendingCommit;
use super::progress::{Progress, Stage, Stages, Stopwatch};
use super::segment::{FinishedSegment, Segment};
use super::signatures::SignatureRecord;
use super::unusable_part;
use super::verdicts::PartVerdicts;
use crate::corpus::{BytesRead, DocumentPlace, Documents, PieceEnd};
use crate::unusable_files::UnusableFiles;
use crate::{Error, Result};

/// Result of a part: its records, and values that are not recorded.
#[derive(Debug)]
pub(super) struct PartOutcome {
    pub(super) dataset_version: DatasetVersion,
    /// One record for each segment, in order.
    pub(super) records: Vec<CommitRecord>,
    /// Whether this run made any of them.
    pub(super) made: bool,
    pub(super) stages: Stages,
    /// Samples that this run made.
    pub(super) rows: u64,
}

impl PartOutcome {
    /// Bytes of its shards. 0 if samples are discarded.
    fn bytes(&self) -> u64 {
        self.records.iter().flat_map(|record| record.train.iter().chain(&record.valid)).map(|shard| shard.bytes).sum()
    }

    /// Returns the event of the finished part.
    pub(super) fn done(&self) -> PartDone {
        let part = &self.records.first().expect("a part has a segment").part;
        let sum = |count: fn(&CommitRecord) -> u64| self.records.iter().map(count).sum::<u64>();
        let stored = sum(|record| record.train.iter().chain(&record.valid).map(|shard| shard.rows).sum());
        PartDone {
            part: part.id.0,
            bytes: part.bytes,
            documents: sum(|record| record.report.documents),
            tokens: sum(|record| record.report.tokens),
            // Discarded samples are in no shard.
            samples: stored.max(self.rows),
            kept: !self.made,
        }
    }
}

/// Result of an attempt at a part.
#[derive(Debug)]
pub(super) enum PartResult {
    /// All segments exist.
    Done(PartOutcome),
    /// Another process has leased the part.
    Leased,
    /// Segments are missing, and this process makes none.
    Missing,
    /// It has files that cannot be used.
    Unusable(UnusableFiles),
}

/// Processed part. Its last segment is not committed.
pub(super) struct ProcessedPart {
    result: PartResult,
    /// Commit of the last segment, if this run made it.
    commit: Option<PendingCommit>,
    /// Lease of the part, held until the commit.
    lease: Option<Lock>,
    count: BytesRead,
}

impl ProcessedPart {
    fn without_commit(result: PartResult) -> Self {
        Self { result, commit: None, lease: None, count: BytesRead::default() }
    }

    /// Commits the last segment, and counts the part as finished.
    pub(super) fn finish(self, task: &Task, progress: &Progress) -> Result<PartResult> {
        let Self { mut result, commit, lease, count } = self;
        let written = commit.map(PendingCommit::complete).transpose()?;
        drop(lease);
        if let PartResult::Done(outcome) = &mut result {
            outcome.stages.write += written.unwrap_or_default();
            progress.finish_part(&task.part, &count);
        }
        Ok(result)
    }
}

/// Gets a part in the way of the job. Returns `None` after a stop.
pub(super) fn process(
    work: &PrepareJob,
    task: &Task,
    progress: &Progress,
    stop: &CancelToken,
) -> Result<Option<ProcessedPart>> {
    match find_or_make(work, task, progress, stop) {
        Err(error @ Error::UnusableFile { .. }) => {
            let files = unusable_part::find_all(work, &task.part, error, stop)?;
            Ok(Some(ProcessedPart::without_commit(PartResult::Unusable(files))))
        }
        processed => processed,
    }
}

fn find_or_make(
    work: &PrepareJob,
    task: &Task,
    progress: &Progress,
    stop: &CancelToken,
) -> Result<Option<ProcessedPart>> {
    let _span = trace_span!(target: SPANS, "make", part = task.part.id.0).entered();
    let found = match work.store() {
        Some(store) => find(work, task, store, Some(&work.listing))?,
        None => FoundPart::default(),
    };
    let count = progress.part();
    match &work.access {
        _ if found.is_whole() => make(work, task, found, progress, count, stop),
        PartAccess::Make | PartAccess::MakeShare => make(work, task, found, progress, count, stop),
        PartAccess::Read => Ok(Some(ProcessedPart::without_commit(PartResult::Missing))),
        PartAccess::Lease(contender) => {
            let store = work.store().expect("leases are in the target");
            // Another process may have completed the part since the listing; then no lease is needed.
            let now = find(work, task, store, None)?;
            let name = leases::name(task.part.id);
            if now.is_whole() {
                contender.forget(&name);
                return make(work, task, now, progress, count, stop);
            }
            let lease = leases::try_acquire(contender, &name, &count)?;
            if lease.is_none() {
                return Ok(Some(ProcessedPart::without_commit(PartResult::Leased)));
            }
            // The previous holder may have completed segments.
            let found = find(work, task, store, None)?;
            let processed = make(work, task, found, progress, count, stop)?;
            Ok(processed.map(|processed| ProcessedPart { lease, ..processed }))
        }
    }
}

/// Reads the intact records of a part: those of the listing, or all that exist now.
fn find(work: &PrepareJob, task: &Task, store: &Store, listing: Option<&ObjectListing>) -> Result<FoundPart> {
    let bound = work.bound(task);
    let mut found = match listing {
        Some(listing) => FoundPart::read_listed(store, bound, listing)?,
        None => FoundPart::read(store, bound)?,
    };
    found.verify(store, listing.unwrap_or(&ObjectListing::default()))?;
    Ok(found)
}

/// Makes the missing segments of a part, and commits all but the last one. Returns `None` after a stop.
fn make(
    work: &PrepareJob,
    task: &Task,
    found: FoundPart,
    progress: &Progress,
    count: BytesRead,
    stop: &CancelToken,
) -> Result<Option<ProcessedPart>> {
    if let Some(reason) = &found.damage {
        warn!(part = task.part.id.0, reason, "prepare: remaking the missing segments");
    }
    for record in &found.records {
        progress.reject_stats().add_recorded(record, |piece| work.corpus.path(piece).display().to_string());
    }
    let made = !found.is_whole();
    let compared = if made { ComparedPart::read(work, task)? } else { ComparedPart::default() };
    let watch = Stopwatch::start(Stage::Read);
    let part = PartMaker { work, task, progress, stop, watch, count, compared };
    let segments = if made {
        part.make_missing(found)?
    } else {
        Some(MadeSegments { records: found.records, rows: 0, commit: None })
    };
    let Some(MadeSegments { records, rows, commit }) = segments else { return Ok(None) };
    let stages = if made { part.watch.read() } else { Stages::default() };
    let outcome = PartOutcome { dataset_version: task.dataset_version, records, made, stages, rows };
    if made {
        add_held(outcome.bytes(), outcome.done().tokens);
    }
    Ok(Some(ProcessedPart { result: PartResult::Done(outcome), commit, lease: None, count: part.count }))
}

/// All segments of a part.
struct MadeSegments {
    records: Vec<CommitRecord>,
    /// Samples that this run made.
    rows: u64,
    /// Commit of the last segment.
    commit: Option<PendingCommit>,
}

/// Part under construction.
struct PartMaker<'a> {
    work: &'a PrepareJob,
    task: &'a Task,
    progress: &'a Progress,
    stop: &'a CancelToken,
    watch: Stopwatch,
    count: BytesRead,
    compared: ComparedPart,
}

/// Verdicts on the duplicates of a part, and the text that they are about.
#[derive(Default)]
struct ComparedPart {
    verdicts: PartVerdicts,
    /// Partners of the removed documents, if these are listed.
    partners: Option<RefCell<PartnerReader>>,
    /// Ends of all pieces. Empty if duplicates stay, or if the signatures were deleted.
    read: Vec<PieceEnd>,
}

impl ComparedPart {
    fn read(work: &PrepareJob, task: &Task) -> Result<Self> {
        let verdicts = work.read_verdicts(task.part.id)?;
        let store = work.comparison_store().filter(|_| work.config.duplicates.is_some());
        let record = store.map(|store| SignatureRecord::read(store, &work.settings, &task.part)).transpose()?.flatten();
        let partners = work.open_partners(task.part.id)?.map(RefCell::new);
        Ok(Self { verdicts, partners, read: record.map(|record| record.read).unwrap_or_default() })
    }

    /// Fails if a piece was read that differs from that of its signatures. The next plan then compares the file with its
    /// parts, even if its identity is unchanged: one of the two reads may have been wrong.
    fn check(&self, work: &PrepareJob, task: &Task, read: &[(usize, PieceEnd)]) -> Result<()> {
        let changed = read.iter().find(|(piece, end)| self.read.get(*piece).is_some_and(|signed| signed != end));
        let Some((piece, _)) = changed else { return Ok(()) };
        let piece = &task.part.pieces[*piece];
        work.store().map_or(Ok(()), |store| Fingerprints::doubt(store, &piece.name))?;
        let message = "it changed after its documents were compared, or one of the two reads was wrong; run `cloze \
                       prepare` again when the file no longer changes (on a cluster, from `cloze prepare plan` on): it \
                       reads the file again, and keeps finished parts";
        Err(Error::Corpus { path: work.corpus.path(piece).to_owned(), line: None, message: message.to_owned() })
    }
}

impl PartMaker<'_> {
    /// Makes the segments after the existing ones.
    fn make_missing(&self, found: FoundPart) -> Result<Option<MadeSegments>> {
        let from = found.next();
        let documents = self.documents(found.next());
        match documents {
            Ok(documents) => self.segments(found, from, documents),
            // The text at the recorded place has changed: the first segments are outdated.
            Err(error) if !found.records.is_empty() => {
                warn!(part = self.task.part.id.0, %error, "prepare: remaking the part from its beginning");
                let documents = self.documents(DocumentPlace::default())?;
                self.segments(FoundPart::default(), DocumentPlace::default(), documents)
            }
            Err(error) => Err(error),
        }
    }

    fn documents(&self, from: DocumentPlace) -> Result<Documents<'_>> {
        self.work.corpus.documents(&self.task.part, from, &self.count)
    }

    fn segments(
        &self,
        found: FoundPart,
        from: DocumentPlace,
        mut documents: Documents<'_>,
    ) -> Result<Option<MadeSegments>> {
        let mut rows = self.rows(found.rows())?;
        let mut made = 0;
        let mut records = found.records;
        let mut segment = self.begin(&records, from, rows);
        // End of the segment, if more text follows.
        let mut full: Option<DocumentPlace> = None;
        while let Some(next) = documents.next() {
            let next = next?;
            if self.stop.is_cancelled() {
                return Ok(None);
            }
            if let Some(place) = full.take() {
                let read = new(&records, documents.read(), place.piece);
                self.compared.check(self.work, self.task, &read)?;
                let FinishedSegment { record, rows: more, commit } = segment.finish(read, Some(place.clone()))?;
                self.watch.during(Stage::Write, || commit.complete())?;
                records.push(record);
                (rows, made) = (self.more(rows, more)?, made + more.iter().sum::<u64>());
                segment = self.begin(&records, place, rows);
            }
            segment.process(&next, documents.memory_budget())?;
            documents.take_back(next);
            if segment.is_full() {
                full = Some(documents.place());
            }
        }
        let read = new(&records, documents.read(), self.task.part.pieces.len());
        self.compared.check(self.work, self.task, &read)?;
        let FinishedSegment { record, rows: more, commit } = segment.finish(read, None)?;
        records.push(record);
        Ok(Some(MadeSegments { records, rows: made + more.iter().sum::<u64>(), commit: Some(commit) }))
    }

    fn begin(&self, records: &[CommitRecord], from: DocumentPlace, rows: [u32; 2]) -> Segment<'_> {
        let number = u32::try_from(records.len()).expect("segments are few");
        let segment = Segment::begin(self.work, self.task, self.progress, &self.watch, number, from, rows);
        segment.without_duplicates(&self.compared.verdicts, self.compared.partners.as_ref())
    }

    fn more(&self, rows: [u32; 2], more: [u64; 2]) -> Result<[u32; 2]> {
        self.rows([u64::from(rows[0]) + more[0], u64::from(rows[1]) + more[1]])
    }

    fn rows(&self, rows: [u64; 2]) -> Result<[u32; 2]> {
        if let [Ok(train), Ok(valid)] = rows.map(u32::try_from) {
            return Ok([train, valid]);
        }
        let id = self.task.part.id;
        Err(Error::Config(format!("part {id} has more than 2^32 samples; lower `prepare.part_bytes`")))
    }
}

/// Returns the pieces before `end` that were read to their ends and are in no record yet.
fn new(records: &[CommitRecord], read: &[(usize, PieceEnd)], end: usize) -> Vec<(usize, PieceEnd)> {
    let first = records.iter().flat_map(|record| &record.read).map(|(piece, _)| piece + 1).max().unwrap_or(0);
    read.iter().filter(|(piece, _)| (first..end).contains(piece)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_in_the_record_of_the_segment_in_which_it_ended() {
        let reached = || PieceEnd { to: 1, lines: 1, blake3: String::new() };
        let read: Vec<(usize, PieceEnd)> = (0..4).map(|piece| (piece, reached())).collect();
        let pieces = |end| new(&[], &read, end).into_iter().map(|(piece, _)| piece).collect::<Vec<_>>();
        assert_eq!(pieces(0), [0; 0]);
        assert_eq!(pieces(2), [0, 1]);
        assert_eq!(pieces(9), [0, 1, 2, 3]);
    }
}

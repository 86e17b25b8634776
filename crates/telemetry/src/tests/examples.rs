//! One example of every event kind: as data, as a log line and as text for users.
//!
//! The log lines are written by hand, because they define the format. If a line has to change, programs that read old
//! logs break, and `VERSION` must be raised.

use std::collections::BTreeMap;

use schemas::ordinal::Step;
use schemas::{DatasetVersion, RowIndex};

use crate::change::{ChangeReport, How, KeyChange, NoteReport};
use crate::preparation::{LargestFile, PartDone, PrepareEnd, PrepareProgress, PrepareStart, SplitCounts, StageSeconds};
use crate::training::{
    AuditReport, BadRowReport, Bounds, CheckpointReport, DatasetVersionReport, EarlyStopReport, EnvironmentReport,
    Figures, LossSpikeReport, MlmReport, PhaseSeconds, RankReport, ResumeReport, SkipReport, Speed, SpikeMetric,
    StartReport, StarvedReport, StepReport, StopReason, StopReport, SuspectRow, UnexpectedLoss, ValidReport, Warning,
};
use crate::{Event, EventKind, Position};

/// Event, its log line after [`STAMP`], and its text for users.
pub(super) type Golden = (EventKind, &'static str, Option<&'static str>);

pub(super) const STAMP: &str = r#"{"version":2,"time":1700000000123,"elapsed_s":12.5,"#;
pub(super) const PLACE: &str = r#""step":1200,"epoch":1.25,"rows_seen":38400,"tokens_seen":4900000,"#;

fn at(what: &EventKind) -> Position {
    if what.kind().starts_with("prep") || what.kind() == "part_done" {
        return Position::default();
    }
    Position { step: Some(Step(1200)), epoch: Some(1.25), rows_seen: Some(38_400), tokens_seen: Some(4_900_000) }
}

pub(super) fn event(what: &EventKind) -> Event {
    Event { version: 2, time: 1_700_000_000_123, elapsed_s: 12.5, at: at(what), what: what.clone() }
}

pub(super) fn golden_line(what: &EventKind, rest: &str) -> String {
    let place = if at(what) == Position::default() { "" } else { PLACE };
    format!("{STAMP}{place}{rest}")
}

pub(super) fn named(values: &[(&str, f64)]) -> BTreeMap<String, f64> {
    values.iter().map(|&(name, value)| (name.to_owned(), value)).collect()
}

pub(super) fn step_report() -> StepReport {
    StepReport {
        figures: Figures {
            loss: 3.41,
            terms: named(&[("mlm", 2.9), ("tc", 0.51)]),
            metrics: named(&[("mlm.accuracy", 0.4)]),
            lr: 1e-4,
            grad_norm: 0.8,
            skipped: 0,
        },
        losses: Vec::new(),
        grad_norms: Vec::new(),
        batch_hash: "ab".to_owned(),
        progress: None,
        speed: Speed {
            tokens_per_s: 745_000.0,
            steps_per_s: Some(2.5),
            mfu: Some(0.44),
            data_wait: 0.003,
            checkpoint_stall: 0.02,
            eta_s: Some(7500.0),
        },
        source_epochs: BTreeMap::new(),
        phases: Some(PhaseSeconds { wall: 8.5, data: 0.025, step: 1.5, read: 6.0, validation: 0.75, checkpoint: 0.17 }),
        memory: None,
        host_bytes: Some(3 << 30),
        ranks: Vec::new(),
    }
}

pub(super) fn valid_report() -> ValidReport {
    ValidReport {
        rows: 64,
        loss: 5.1859,
        terms: named(&[("mlm", 5.1559), ("tc", 0.03)]),
        metrics: named(&[("mlm.accuracy", 0.2)]),
        mlm: Some(MlmReport { loss: 5.2881, accuracy: 0.19, ln_vocab: 8.3178, unigram_cross_entropy: Some(6.7701) }),
        seconds: 0.75,
    }
}

fn loss_spikes() -> Vec<Golden> {
    vec![
        (
            EventKind::LossSpike(loss_spike()),
            r#""kind":"loss_spike","spike_step":1188,"first_row":303872,"rows":256,"figure":"loss","value":9.5,"median":2.25,"sigmas":57.25}"#,
            Some("warning: loss spike at step 1188: loss 9.5000 (median 2.2500, 57 sigma); rows 303872 to 304127"),
        ),
        (
            EventKind::Skip(SkipReport {
                spike: loss_spike(),
                suspects: vec![SuspectRow {
                    row: RowIndex(303_900),
                    loss: 40.5,
                    documents: vec!["a".to_owned(), "b".to_owned()],
                }],
            }),
            r#""kind":"skip","spike_step":1188,"first_row":303872,"rows":256,"figure":"loss","value":9.5,"median":2.25,"sigmas":57.25,"suspects":[{"row":303900,"loss":40.5,"documents":["a","b"]}]}"#,
            Some(
                "skipped: loss spike at step 1188: loss 9.5000 (median 2.2500, 57 sigma); rows 303872 to 304127; row with the highest loss: 303900 (loss 40.5000; a, b)",
            ),
        ),
    ]
}

fn loss_spike() -> LossSpikeReport {
    let figure = SpikeMetric::Loss;
    let spike_step = Step(1188);
    let first_row = RowIndex(303_872);
    LossSpikeReport { spike_step, first_row, rows: 256, figure, value: 9.5, median: 2.25, sigmas: 57.25 }
}

fn change() -> ChangeReport {
    let [then, now] = ["0.001", "0.002"].map(|value| Some(value.to_owned()));
    ChangeReport {
        how: How::Rollback,
        message: "went back from step 2000".to_owned(),
        keys: vec![KeyChange { key: "optimizer.lr".to_owned(), then, now }],
        from: Some(Step(2000)),
    }
}

#[expect(clippy::too_many_lines, reason = "one example of each kind")]
fn training() -> Vec<Golden> {
    let expected = Bounds { low: 9.8, high: 10.8 };
    let start = StartReport {
        random: true,
        terms: named(&[("mlm", 12.5), ("tc", 3.3939)]),
        expected: [("mlm".to_owned(), expected)].into(),
        unexpected_losses: vec![UnexpectedLoss {
            term: "mlm".to_owned(),
            value: 12.5,
            expected,
            hint: "tied?".to_owned(),
        }],
    };
    let audit = AuditReport {
        view: "masked".to_owned(),
        what: "masked tokens that become `[MASK]`".to_owned(),
        found: 0.791_667,
        promised: 0.8,
        error: 0.005_893,
        of: 4608.0,
    };
    let warning = Warning {
        topic: "device".to_owned(),
        message: "another device: results will differ in the last bits".to_owned(),
        hint: Some("`cpu` then, `cuda:0` now".to_owned()),
    };
    let stop = StopReport {
        why: StopReason::Terminate,
        saved: true,
        kept: Some(Step(1200)),
        place: "runs/a".to_owned(),
        error: None,
        memory: None,
    };
    vec![
        (
            EventKind::Start(start),
            r#""kind":"start","random":true,"terms":{"mlm":12.5,"tc":3.3939},"expected":{"mlm":{"low":9.8,"high":10.8}},"unexpected_losses":[{"term":"mlm","value":12.5,"low":9.8,"high":10.8,"hint":"tied?"}]}"#,
            Some("step 1200  started from random weights: mlm 12.5000, tc 3.3939"),
        ),
        (
            EventKind::Report(step_report()),
            r#""kind":"report","loss":3.41,"terms":{"mlm":2.9,"tc":0.51},"metrics":{"mlm.accuracy":0.4},"lr":0.0001,"grad_norm":0.8,"skipped":0,"batch_hash":"ab","tokens_per_s":745000.0,"steps_per_s":2.5,"mfu":0.44,"data_wait":0.003,"checkpoint_stall":0.02,"eta_s":7500.0,"phases":{"wall":8.5,"data":0.025,"step":1.5,"read":6.0,"validation":0.75,"checkpoint":0.17},"host_bytes":3221225472}"#,
            Some(
                "step 1200  loss 3.4100 (mlm 2.9000, tc 0.5100)  lr 1.0e-4  norm 0.80  745 k tok/s  mfu 44 %  wait 0.3 %  saving 2.0 %  ETA 2.1 h",
            ),
        ),
        (
            EventKind::Validation(valid_report()),
            r#""kind":"validation","rows":64,"loss":5.1859,"terms":{"mlm":5.1559,"tc":0.03},"metrics":{"mlm.accuracy":0.2},"mlm":{"loss":5.2881,"accuracy":0.19,"ln_vocab":8.3178,"unigram_cross_entropy":6.7701},"seconds":0.75}"#,
            Some("step 1200  valid loss 5.1859 (mlm 5.1559, tc 0.0300)  valid/mlm 5.2881 (ln V 8.32, unigram 6.77)"),
        ),
        (
            EventKind::EarlyStop(EarlyStopReport {
                metric: "task.matthews".to_owned(),
                value: 0.5,
                best: Some(0.625),
                best_step: Step(900),
                validations: 3,
            }),
            r#""kind":"early_stop","metric":"task.matthews","value":0.5,"best":0.625,"best_step":900,"validations":3}"#,
            Some("step 1200  ends early: `task.matthews` is 0.5000; 0.6250 at step 900 is the best, 3 validations ago"),
        ),
        (
            EventKind::Checkpoint(CheckpointReport {
                place: "runs/a/checkpoints/1200".to_owned(),
                seconds: 1.5,
                stall_s: 1.25,
            }),
            r#""kind":"checkpoint","place":"runs/a/checkpoints/1200","seconds":1.5,"stall_s":1.25}"#,
            Some("saved checkpoint runs/a/checkpoints/1200; the next step waited 1.2 s"),
        ),
        (
            EventKind::Resume(ResumeReport { place: "runs/a/checkpoints/1200".to_owned() }),
            r#""kind":"resume","place":"runs/a/checkpoints/1200"}"#,
            Some("continuing after step 1200"),
        ),
        (
            EventKind::Environment(EnvironmentReport {
                program: "0.2.0".to_owned(),
                device: "cuda:0".to_owned(),
                gpu: Some("H100".to_owned()),
                products: "bf16".to_owned(),
                threads: 8,
                allocator: None,
                attention: [("main 128".to_owned(), "flash where no row is padded".to_owned())].into(),
            }),
            r#""kind":"environment","program":"0.2.0","device":"cuda:0","gpu":"H100","products":"bf16","threads":8,"attention":{"main 128":"flash where no row is padded"}}"#,
            None,
        ),
        (
            EventKind::Warning(warning),
            r#""kind":"warning","topic":"device","message":"another device: results will differ in the last bits","hint":"`cpu` then, `cuda:0` now"}"#,
            Some("warning: another device: results will differ in the last bits; `cpu` then, `cuda:0` now"),
        ),
        (
            EventKind::Audit(audit),
            r#""kind":"audit","view":"masked","what":"masked tokens that become `[MASK]`","found":0.791667,"promised":0.8,"error":0.005893,"of":4608.0}"#,
            Some(
                "audited `masked`: masked tokens that become `[MASK]`: 0.791667 (specified 0.8, standard error 0.005893, n = 4608)",
            ),
        ),
        (
            EventKind::DatasetVersion(DatasetVersionReport {
                dataset_version: DatasetVersion(3),
                before: DatasetVersion(1),
                row: RowIndex(38_431),
                source: None,
            }),
            r#""kind":"dataset_version","dataset_version":3,"before":1,"row":38431}"#,
            Some("step 1200  rows from 38431 on are of dataset version 3 of the data (before: 1)"),
        ),
        (
            EventKind::Starved(StarvedReport { by: "prepare".to_owned(), seconds: 4.25, part: 11, parts: 256 }),
            r#""kind":"starved","by":"prepare","seconds":4.25,"part":11,"parts":256}"#,
            Some("step 1200  starved by prepare: waited 4.2 s for part 12 of 256"),
        ),
        (
            EventKind::Change(change()),
            r#""kind":"change","how":"rollback","message":"went back from step 2000","keys":[{"key":"optimizer.lr","then":"0.001","now":"0.002"}],"from":2000}"#,
            Some("step 1200  went back from step 2000"),
        ),
        note(),
        bad_row(),
        (
            EventKind::Stop(stop),
            r#""kind":"stop","why":"terminate","saved":true,"kept":1200,"place":"runs/a"}"#,
            Some("stopped and saved after step 1200; the same command continues"),
        ),
    ]
}

fn note() -> Golden {
    (
        EventKind::Note(NoteReport { text: "the rate is \u{1b}[31mhalved".to_owned() }),
        r#""kind":"note","text":"the rate is \u001b[31mhalved"}"#,
        Some("step 1200  note: the rate is \\u{1b}[31mhalved"),
    )
}

fn bad_row() -> Golden {
    (
        EventKind::BadRow(bad_row_report(None)),
        concat!(
            r#""kind":"bad_row","row":38431,"sample":"6:1424","shard":"train/part-00006-00-00.parquet","group":2,"#,
            r#""row_in_group":400,"documents":["00c0ffee00c0ffee"],"why":"an index is out of bounds"}"#,
        ),
        Some(
            "warning: step 1200  row 38431 is excluded because it cannot be built (sample 6:1424 = \
             train/part-00006-00-00.parquet, row group 2, row 400): an index is out of bounds",
        ),
    )
}

fn bad_row_report(source: Option<&str>) -> BadRowReport {
    BadRowReport {
        row: RowIndex(38_431),
        source: source.map(str::to_owned),
        sample: "6:1424".to_owned(),
        shard: "train/part-00006-00-00.parquet".to_owned(),
        group: 2,
        row_in_group: 400,
        documents: vec!["00c0ffee00c0ffee".to_owned()],
        why: "an index is out of bounds".to_owned(),
    }
}

fn rank_report(rank: u32, rank_wait: f64, host_bytes: Option<u64>) -> RankReport {
    let host = format!("node-{rank}");
    RankReport { rank, host, step_s: 0.4, data_wait: 0.003, checkpoint_stall: 0.02, rank_wait, host_bytes }
}

/// Additional examples of some kinds, from runs with several sources or ranks.
pub(super) fn mixing() -> Vec<Golden> {
    let ranks = vec![rank_report(0, 0.28, Some(3 << 30)), rank_report(1, 0.0, None)];
    vec![
        (
            EventKind::Report(StepReport { ranks, ..step_report() }),
            r#""kind":"report","loss":3.41,"terms":{"mlm":2.9,"tc":0.51},"metrics":{"mlm.accuracy":0.4},"lr":0.0001,"grad_norm":0.8,"skipped":0,"batch_hash":"ab","tokens_per_s":745000.0,"steps_per_s":2.5,"mfu":0.44,"data_wait":0.003,"checkpoint_stall":0.02,"eta_s":7500.0,"phases":{"wall":8.5,"data":0.025,"step":1.5,"read":6.0,"validation":0.75,"checkpoint":0.17},"host_bytes":3221225472,"ranks":[{"rank":0,"host":"node-0","step_s":0.4,"data_wait":0.003,"checkpoint_stall":0.02,"rank_wait":0.28,"host_bytes":3221225472},{"rank":1,"host":"node-1","step_s":0.4,"data_wait":0.003,"checkpoint_stall":0.02,"rank_wait":0.0}]}"#,
            Some(
                "step 1200  loss 3.4100 (mlm 2.9000, tc 0.5100)  lr 1.0e-4  norm 0.80  745 k tok/s  mfu 44 %  wait 0.3 %  saving 2.0 %  ETA 2.1 h",
            ),
        ),
        (
            EventKind::Report(StepReport { source_epochs: named(&[("books", 1.21), ("wiki", 0.5)]), ..step_report() }),
            r#""kind":"report","loss":3.41,"terms":{"mlm":2.9,"tc":0.51},"metrics":{"mlm.accuracy":0.4},"lr":0.0001,"grad_norm":0.8,"skipped":0,"batch_hash":"ab","tokens_per_s":745000.0,"steps_per_s":2.5,"mfu":0.44,"data_wait":0.003,"checkpoint_stall":0.02,"eta_s":7500.0,"source_epochs":{"books":1.21,"wiki":0.5},"phases":{"wall":8.5,"data":0.025,"step":1.5,"read":6.0,"validation":0.75,"checkpoint":0.17},"host_bytes":3221225472}"#,
            Some(
                "step 1200  loss 3.4100 (mlm 2.9000, tc 0.5100)  lr 1.0e-4  norm 0.80  epochs books 1.21, wiki 0.50  745 k tok/s  mfu 44 %  wait 0.3 %  saving 2.0 %  ETA 2.1 h",
            ),
        ),
        (
            EventKind::DatasetVersion(DatasetVersionReport {
                dataset_version: DatasetVersion(3),
                before: DatasetVersion(1),
                row: RowIndex(38_431),
                source: Some("books".to_owned()),
            }),
            r#""kind":"dataset_version","dataset_version":3,"before":1,"row":38431,"source":"books"}"#,
            Some("step 1200  rows from 38431 on are of dataset version 3 of source `books` (before: 1)"),
        ),
        (
            EventKind::BadRow(bad_row_report(Some("books"))),
            concat!(
                r#""kind":"bad_row","row":38431,"source":"books","sample":"6:1424","shard":"train/part-00006-00-00.parquet","#,
                r#""group":2,"row_in_group":400,"documents":["00c0ffee00c0ffee"],"why":"an index is out of bounds"}"#,
            ),
            Some(
                "warning: step 1200  row 38431 is excluded because it cannot be built (sample 6:1424 of books = \
                 train/part-00006-00-00.parquet, row group 2, row 400): an index is out of bounds",
            ),
        ),
    ]
}

pub(super) fn prepare_end() -> PrepareEnd {
    PrepareEnd {
        place: "corpus".to_owned(),
        dataset_version: DatasetVersion(2),
        change: Some("1 document to forget: dataset version 2 drops 1 part and makes 1 part".to_owned()),
        pack: "sentences".to_owned(),
        parts_made: 3,
        parts_kept: 1,
        nothing_to_do: false,
        bytes_read: 3 << 20,
        text_bytes_made: 1_040_000,
        lines: 341,
        documents: 339,
        text_bytes: 1_300_000,
        words: 161_633,
        tokens: 385_031,
        unknown: 0,
        forgotten: 1,
        exact_duplicates: 0,
        near_duplicates: 0,
        duplicate_bytes: 0,
        contaminated: 0,
        contaminated_bytes: 0,
        contaminated_by: BTreeMap::new(),
        rejected: [("empty".to_owned(), 2)].into(),
        filters: Vec::new(),
        sentences: 9000,
        cut_sentences: 0,
        cut_documents: 0,
        cut_tokens: 17,
        train: SplitCounts { samples: 3000, tokens: 375_000 },
        valid: SplitCounts { samples: 0, tokens: 0 },
        samples: 3000,
        stored_tokens: 375_000,
        tokens_capacity: 378_000,
        shard_bytes: 750_000,
        stages: StageSeconds { read: 0.25, tokenize: 1.5, pack: 0.125, write: 0.5 },
        warnings: vec!["no document fell into the validation split".to_owned()],
        seconds: 0.65,
    }
}

fn preparation() -> Vec<Golden> {
    let start = PrepareStart {
        files: 1234,
        bytes: 3 << 30,
        parts: 40,
        workers: 4,
        text_bytes_max: 64 << 20,
        largest_compressed: Some(LargestFile { name: "big.jsonl.gz".to_owned(), bytes: 1 << 20 }),
        dataset_version: DatasetVersion(2),
        tokenized_by: "WordPiece by AVX2".to_owned(),
        change: Some("1 file added: dataset version 2 drops 0 parts and makes 1 part".to_owned()),
    };
    let progress = PrepareProgress {
        bytes: 450,
        bytes_kept: 50,
        bytes_total: 1000,
        parts: 12,
        parts_total: 40,
        text_bytes: 31_000_000,
        tokens: 5_200_000,
        ..PrepareProgress::default()
    };
    let part = PartDone { part: 7, bytes: 1000, documents: 30, tokens: 5000, samples: 40, kept: false };
    vec![
        (
            EventKind::PrepareStart(start),
            r#""kind":"prepare_start","files":1234,"bytes":3221225472,"parts":40,"workers":4,"text_bytes_max":67108864,"largest_compressed":{"name":"big.jsonl.gz","bytes":1048576},"dataset_version":2,"tokenized_by":"WordPiece by AVX2","change":"1 file added: dataset version 2 drops 0 parts and makes 1 part"}"#,
            Some(
                "1,234 files, 3.0 GiB in 40 parts for 4 workers; at most 64.0 MiB of text in memory\ntext to ids: WordPiece by AVX2\n1 file added: dataset version 2 drops 0 parts and makes 1 part\nlargest compressed file, which one worker reads from start to end: big.jsonl.gz, 1.0 MiB",
            ),
        ),
        (
            EventKind::PrepareProgress(progress.with_elapsed(10.0)),
            r#""kind":"prepare_progress","bytes":450,"bytes_kept":50,"bytes_total":1000,"parts":12,"parts_total":40,"text_bytes":31000000,"tokens":5200000,"text_bytes_per_s":3100000.0,"tokens_per_s":520000.0,"eta_s":13.75}"#,
            Some("prepare: 45 %  12/40 parts  3.1 MB/s  0.52 M tokens/s  ETA 14 s"),
        ),
        (
            EventKind::PartDone(part),
            r#""kind":"part_done","part":7,"bytes":1000,"documents":30,"tokens":5000,"samples":40,"kept":false}"#,
            None,
        ),
        (
            EventKind::PrepareEnd(prepare_end()),
            r#""kind":"prepare_end","place":"corpus","dataset_version":2,"change":"1 document to forget: dataset version 2 drops 1 part and makes 1 part","pack":"sentences","parts_made":3,"parts_kept":1,"nothing_to_do":false,"bytes_read":3145728,"text_bytes_made":1040000,"lines":341,"documents":339,"text_bytes":1300000,"words":161633,"tokens":385031,"unknown":0,"forgotten":1,"rejected":{"empty":2},"sentences":9000,"cut_sentences":0,"cut_documents":0,"cut_tokens":17,"train":{"samples":3000,"tokens":375000},"valid":{"samples":0,"tokens":0},"samples":3000,"stored_tokens":375000,"tokens_capacity":378000,"shard_bytes":750000,"stages":{"read":0.25,"tokenize":1.5,"pack":0.125,"write":0.5},"warnings":["no document fell into the validation split"],"seconds":0.65}"#,
            Some(
                "corpus: 3 parts made, 1 kept, 3.0 MiB of input read, in 0.7 s (1.6 MB/s of text)
  339 documents, 161,633 words, 385,031 tokens: 2.38 tokens per word, 0.00 % unknown
  packed as `sentences`, 9,000 sentences, 17 tokens in no sample
  3,000 samples to train on, 0 to validate on; 0.79 % of their rows would be padding
  732.4 KiB on disk, 2.00 bytes per token
  documents excluded because they are to be forgotten: 1
  rejected or repaired: 2 × empty
  warning: no document fell into the validation split",
            ),
        ),
    ]
}

pub(super) fn golden() -> Vec<Golden> {
    [training(), loss_spikes(), preparation()].concat()
}

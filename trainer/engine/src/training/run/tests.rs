mod amended;
mod endings;
mod guarding;
mod memory;
mod ranks;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use schemas::RankShard;
use store::{FaultConfig, Log, MemoryBackend};
use telemetry::training::{CheckpointReport, StopReason};
use telemetry::{Event, Observer, jsonl};
use trainer_plan::ForeignError;
use trainer_plan::config::CheckpointConfig;

use super::*;
use crate::testing;
use crate::training::checkpoint::{self, CheckpointPolicy};
use crate::training::interfaces::ValidationScorer;
use crate::training::process_group::SingleProcess;

/// Stop request of a test.
type Asked = Mutex<Option<StopRequest>>;

/// Stream of [`testing::batch`] that injects the faults of `trouble`.
struct Stream<'a> {
    next: u64,
    trouble: ApiError,
    stop: &'a Asked,
    share: RankShard,
}

impl Stream<'_> {
    fn ask(&self, stop: StopRequest) {
        *self.stop.lock().expect("no thread panics while holding it") = Some(stop);
    }
}

impl Data for Stream<'_> {
    fn seek(&mut self, rows: RowIndex) -> Result<(), ForeignError> {
        self.next = rows.0 / testing::ROWS as u64 + u64::from(self.trouble.late);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Batch>, ForeignError> {
        if self.trouble.waiting_for == Some(self.next) {
            self.ask(StopRequest::Terminate);
            return Ok(None);
        }
        if self.trouble.unreadable == Some(self.next) {
            return Err("shard: it is gone".into());
        }
        let index = self.next + self.share.in_stream(0);
        self.next += u64::from(self.share.ranks());
        let poison = self.trouble.poisoned == Some(index);
        let batch = testing::batch(if poison { testing::POISON } else { index });
        Ok(Some(batch.starting_at(RowIndex(index * testing::ROWS as u64))))
    }

    fn validation(&mut self) -> Result<Box<dyn Iterator<Item = Result<Batch, ForeignError>> + '_>, ForeignError> {
        Ok(Box::new((1000..1002).map(|index| {
            if self.trouble.validating && index == 1001 {
                self.ask(StopRequest::Interrupt);
            }
            if self.trouble.invalid {
                return Err("shard: it is gone".into());
            }
            Ok(testing::batch(index))
        })))
    }

    fn documents(&mut self, row: RowIndex) -> Result<Vec<String>, ForeignError> {
        Ok(vec![format!("document of {row}")])
    }

    fn epochs(&self, rows: RowIndex) -> Result<f64, ForeignError> {
        Ok(rows.0 as f64 / 64.0)
    }

    fn remarks(&mut self) -> Vec<EventKind> {
        // One event, for the first batch of step 4.
        let remark = || Warning { topic: "remark".to_owned(), message: "seen".to_owned(), hint: None };
        if self.next == 7 { vec![EventKind::Warning(remark())] } else { Vec::new() }
    }
}

/// Host that writes everything to a store.
struct RecordingHost<'a> {
    store: &'a Store,
    log: Log,
    stop: &'a Asked,
    events: Vec<Event>,
    /// States that the run started from: one entry per start, `None` at the beginning.
    from: Vec<Option<State>>,
    last: Option<Snapshot>,
    kept: Option<CheckpointReport>,
    // Simulates a kill after this number of checkpoints.
    dies_after: Option<usize>,
    // Whether the run may start more than once.
    goes_back: bool,
    scores: bool,
}

impl Observer for RecordingHost<'_> {
    fn observe(&mut self, event: &Event) {
        assert!(
            !self.from.is_empty() || matches!(event.what, EventKind::Stop(_)),
            "no event precedes `begin`: {event:?}"
        );
        self.events.push(event.clone());
        self.log.push(&jsonl::line(event)).expect("the store answers in the end");
    }
}

impl Host for RecordingHost<'_> {
    fn stop(&self) -> Option<StopRequest> {
        *self.stop.lock().expect("no thread panics while holding it")
    }

    fn begin(&mut self, from: Option<&State>) -> Result<(), ForeignError> {
        assert!(self.from.is_empty() || self.goes_back, "`begin` is called once");
        self.from.push(from.cloned());
        Ok(())
    }

    fn save(&mut self, snapshot: Snapshot) -> Result<(), ForeignError> {
        if self.dies_after == Some(0) {
            return Err("killed".into());
        }
        self.dies_after = self.dies_after.map(|left| left - 1);
        let place = snapshot.write(self.store, &keep(2))?;
        self.last = Some(snapshot);
        self.kept = Some(CheckpointReport { place, seconds: 0.0, stall_s: 0.0 });
        Ok(())
    }

    fn saved(&mut self) -> Result<Option<CheckpointReport>, ForeignError> {
        Ok(self.kept.take())
    }

    fn check(&mut self) -> Result<Option<CheckpointReport>, ForeignError> {
        Ok(None)
    }

    fn validation_scorer(&mut self) -> Option<Box<dyn ValidationScorer>> {
        self.scores.then(|| -> Box<dyn ValidationScorer> { Box::new(RowCounter(0)) })
    }
}

/// Scorer that counts rows, of two classes each.
struct RowCounter(usize);

impl ValidationScorer for RowCounter {
    fn objective(&self) -> &'static str {
        "classification"
    }

    fn add(&mut self, batch: &Batch, scores: Vec<Vec<f64>>) -> Result<(), ForeignError> {
        assert_eq!(scores.len(), batch.rows(), "one row of scores for each row");
        assert!(scores.iter().all(|row| row.len() == 2 && row.iter().all(|score| score.is_finite())), "{scores:?}");
        self.0 += scores.len();
        Ok(())
    }

    fn finish(self: Box<Self>) -> BTreeMap<String, f64> {
        [("rows".to_owned(), self.0 as f64), ("accuracy".to_owned(), -1.0)].into()
    }
}

#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is another fault")]
struct ApiError {
    waiting_for: Option<u64>,
    validating: bool,
    // The stream starts one batch late.
    late: bool,
    // The batch of this index fails.
    unreadable: Option<u64>,
    // Every validation batch fails.
    invalid: bool,
    // The batch of this index has tokens that no other batch has.
    poisoned: Option<u64>,
    dies_after: Option<usize>,
    // Whether the host scores validations.
    scores: bool,
}

struct RunResult {
    outcome: Result<RunOutcome, Error>,
    events: Vec<Event>,
    from: Vec<Option<State>>,
    last: Option<Snapshot>,
}

fn train(store: &Store, trouble: ApiError) -> RunResult {
    train_with(store, &testing::plan(), trouble)
}

fn train_with(store: &Store, plan: &TrainPlan, trouble: ApiError) -> RunResult {
    train_among(store, plan, trouble, Arc::new(SingleProcess))
}

fn train_among(store: &Store, plan: &TrainPlan, trouble: ApiError, ranks: Arc<dyn ProcessGroup>) -> RunResult {
    train_by(store, plan, trouble, ranks, &Clock::still())
}

fn train_by(
    store: &Store,
    plan: &TrainPlan,
    trouble: ApiError,
    ranks: Arc<dyn ProcessGroup>,
    clock: &Clock,
) -> RunResult {
    let stop = Asked::default();
    let mut data = Stream { next: 0, trouble, stop: &stop, share: ranks.share() };
    let mut host = RecordingHost {
        store,
        log: Log::open(store, jsonl::LOG).expect("readable"),
        stop: &stop,
        events: Vec::new(),
        from: Vec::new(),
        last: None,
        kept: None,
        dies_after: trouble.dies_after,
        goes_back: trouble.poisoned.is_some(),
        scores: trouble.scores,
    };
    let outcome = run(plan, ranks, store, clock, &mut data, &mut host);
    host.log.flush().expect("the store answers in the end");
    RunResult { outcome, events: host.events, from: host.from, last: host.last }
}

fn keep(keep: usize) -> CheckpointPolicy {
    CheckpointPolicy::new(CheckpointConfig { keep, ..CheckpointConfig::default() })
}

fn calm() -> Store {
    Store::in_memory(FaultConfig::none())
}

/// Results that two runs of one command share: metrics and positions. Times are excluded.
fn figures(events: &[Event]) -> Vec<String> {
    let figures = |event: &Event| {
        let what = match &event.what {
            EventKind::Report(report) => format!("{:?} {}", report.figures, report.batch_hash),
            EventKind::Start(report) => format!("{report:?}"),
            EventKind::Validation(report) => {
                format!("{:?}", telemetry::training::ValidReport { seconds: 0.0, ..report.clone() })
            }
            _ => return None,
        };
        Some(format!("{:?} {what}", event.at))
    };
    events.iter().filter_map(figures).collect()
}

fn whole() -> (Vec<String>, Snapshot) {
    let ran = train(&calm(), ApiError::default());
    assert!(matches!(ran.outcome, Ok(RunOutcome::Finished(Step(12)))), "{:?}", ran.outcome);
    (figures(&ran.events), ran.last.expect("the end makes a checkpoint"))
}

fn assert_resumes(trouble: ApiError, expected: &[RunOutcome]) {
    let (reports, last) = whole();
    let store = calm();
    let first = train(&store, trouble);
    match first.outcome {
        Ok(outcome) => assert_eq!([outcome], expected),
        Err(error) => assert!(expected.is_empty() && error.to_string() == "killed", "{error}"),
    }
    let kept = checkpoint::newest(&store).expect("readable").expect("it saved").1.state;
    let second = train(&store, ApiError::default());
    assert!(matches!(second.outcome, Ok(RunOutcome::Finished(Step(12)))), "{:?}", second.outcome);
    assert_eq!(second.from, [Some(kept.clone())]);
    let resume = &second.events[0];
    assert!(matches!(resume.what, EventKind::Resume(_)) && resume.at.step == Some(kept.step), "{resume:?}");
    assert_eq!(resume.at.tokens_seen, Some(kept.tokens_consumed));
    let snapshot = second.last.expect("the end makes a checkpoint");
    assert!(snapshot.main == last.main && snapshot.optimizer == last.optimizer, "weights and optimizer state");
    assert_eq!(snapshot.state, last.state);
    assert!(last.state.detectors.contains_key("replaced_token.gain"), "the health of detectors is part of the state");
    // The resumed run repeats the reports that the killed run emitted after its last checkpoint.
    let stopped = !expected.is_empty();
    let before = first.events.into_iter().filter(|event| stopped || event.at.step <= Some(kept.step));
    assert_eq!(figures(&before.chain(second.events).collect::<Vec<_>>()), reports);
}

#[test]
fn a_run_stopped_while_it_waits_resumes_to_the_bit() {
    let _alone = testing::generator();
    // In the middle of step 8, of a report interval and of a checkpoint interval.
    let trouble = ApiError { waiting_for: Some(15), ..ApiError::default() };
    assert_resumes(trouble, &[RunOutcome::Stopped(Step(7), StopRequest::Terminate)]);
}

#[test]
fn a_run_stopped_while_it_validates_resumes_to_the_bit() {
    let _alone = testing::generator();
    let trouble = ApiError { validating: true, ..ApiError::default() };
    assert_resumes(trouble, &[RunOutcome::Stopped(Step(5), StopRequest::Interrupt)]);
}

#[test]
fn a_killed_run_resumes_to_the_bit() {
    let _alone = testing::generator();
    assert_resumes(ApiError { dies_after: Some(1), ..ApiError::default() }, &[]);
}

#[test]
fn a_finished_run_has_nothing_to_do() {
    let _alone = testing::generator();
    let store = calm();
    train(&store, ApiError::default());
    let again = train(&store, ApiError::default());
    assert!(matches!(again.outcome, Ok(RunOutcome::Finished(Step(12)))));
    let kinds: Vec<&str> = again.events.iter().map(|event| event.what.kind()).collect();
    assert!(again.from.is_empty() && again.last.is_none(), "`begin` is not called");
    assert_eq!(kinds, ["stop"]);
}

#[test]
fn another_run_is_refused_with_the_keys_that_differ() {
    let _alone = testing::generator();
    let store = calm();
    train(&store, ApiError::default());
    let mut request = testing::request();
    request.identity = trainer_plan::identity::Identity::new([("seed".to_owned(), "8".to_owned())].into());
    let ran = train_with(&store, &testing::checked(request), ApiError::default());
    let error = ran.outcome.expect_err("another seed makes another run");
    assert!(error.is_usage() && error.to_string().contains("seed  7 → 8"), "{error}");
    assert!(ran.from.is_empty() && ran.events.is_empty(), "a refused run does not start");
}

#[test]
fn validation_reports_reference_values() {
    let _alone = testing::generator();
    let ran = train(&calm(), ApiError::default());
    let (at, valid) = ran
        .events
        .iter()
        .find_map(|event| match &event.what {
            EventKind::Validation(report) => Some((event.at, report)),
            _ => None,
        })
        .expect("one after five steps");
    let mlm = valid.mlm.expect("there is a head");
    let uniform = f64::from(testing::WORDS).ln();
    assert_eq!((at.step, valid.rows), (Some(Step(5)), 8));
    assert!(
        (mlm.ln_vocab - uniform).abs() < 1e-12
            && mlm.unigram_cross_entropy.is_some_and(|found| (found - uniform).abs() < 1e-12)
    );
    assert!(mlm.loss > 0.0);
}

#[test]
fn events_carry_the_position_of_the_run() {
    let _alone = testing::generator();
    let ran = train(&calm(), ApiError::default());
    let kinds: Vec<(&str, u64)> =
        ran.events.iter().map(|event| (event.what.kind(), event.at.step.expect("every event has a step").0)).collect();
    let expected = [
        ("environment", 0),
        ("start", 1),
        ("report", 3),
        // The warning is about the batches of the next step.
        ("warning", 3),
        ("validation", 5),
        ("report", 6),
        // A checkpoint is reported when its write is confirmed, with the position of its step.
        ("checkpoint", 4),
        ("report", 9),
        ("validation", 10),
        ("report", 12),
        ("validation", 12),
        ("checkpoint", 8),
        ("checkpoint", 12),
        ("stop", 12),
    ];
    assert_eq!(without_first_values(&kinds, &ran.events), expected);
    for Position { step, epoch, rows_seen, tokens_seen } in ran.events.iter().map(|event| event.at) {
        let rows = step.expect("above").0 * 8;
        assert_eq!((rows_seen, epoch), (Some(rows), Some(rows as f64 / 64.0)));
        // Every fourth row is padded; rows are at most 12 tokens long.
        assert!(
            tokens_seen.is_some_and(|tokens| tokens <= rows * 12 && tokens >= rows * 6),
            "{tokens_seen:?} of {rows}"
        );
    }
    let EventKind::Stop(stop) = &ran.events.last().expect("some").what else { panic!("a stop event comes last") };
    assert_eq!((stop.why, stop.saved), (StopReason::Finished, true));
}

/// Filters the warnings of the initial loss check, because the networks of the tests are too narrow for it.
fn without_first_values<'a>(kinds: &[(&'a str, u64)], events: &[Event]) -> Vec<(&'a str, u64)> {
    let is_first = |event: &Event| matches!(&event.what, EventKind::Warning(warning) if warning.topic == "first_value");
    kinds.iter().zip(events).filter(|(_, event)| !is_first(event)).map(|(kind, _)| *kind).collect()
}

#[test]
fn a_failed_run_ends_with_a_stop_event() {
    let _alone = testing::generator();
    let ran = train(&calm(), ApiError { dies_after: Some(1), ..ApiError::default() });
    let EventKind::Stop(stop) = &ran.events.last().expect("some").what else { panic!("a stop event comes last") };
    assert_eq!((stop.why, stop.saved, stop.error.as_deref()), (StopReason::Failed, false, Some("killed")));
    assert_eq!(stop.kept, Some(Step(4)), "the checkpoint in flight is awaited and reported");
}

/// Objects of a run by name. Fields of the log that depend on the clock are removed.
fn objects(store: &Store) -> BTreeMap<String, Vec<u8>> {
    let entries = store.list("").expect("listed").into_iter();
    let named = entries.map(|entry| (entry.name.clone(), store.get(&entry.name).expect("there")));
    named.map(|(name, bytes)| if name.starts_with("log/") { (name, timeless(&bytes)) } else { (name, bytes) }).collect()
}

fn timeless(log: &[u8]) -> Vec<u8> {
    let lines = log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let timeless = |line: &[u8]| {
        let mut entry: serde_json::Value = serde_json::from_slice(line).expect("JSON");
        let object = entry.as_object_mut().expect("an object");
        object.retain(|key, _| {
            !matches!(
                key.as_str(),
                "tokens_per_s"
                    | "steps_per_s"
                    | "data_wait"
                    | "checkpoint_stall"
                    | "stall_s"
                    | "mfu"
                    | "eta_s"
                    | "phases"
                    | "host_bytes"
                    | "seconds"
                    | "place"
            )
        });
        format!("{entry}\n").into_bytes()
    };
    lines.flat_map(timeless).collect()
}

#[test]
fn a_run_over_a_failing_store_ends_as_over_a_folder() {
    let _alone = testing::generator();
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = Store::folder(home.path()).expect("made");
    let memory = MemoryBackend::new(FaultConfig { seed: 11, failures: 0.25, lost: 0.25, ..FaultConfig::none() });
    let faulty = Store::from_memory(&memory);
    for store in [&folder, &faulty] {
        // The run is stopped once and resumed.
        let trouble = ApiError { waiting_for: Some(15), ..ApiError::default() };
        assert!(matches!(train(store, trouble).outcome, Ok(RunOutcome::Stopped(Step(7), _))));
        assert!(matches!(train(store, ApiError::default()).outcome, Ok(RunOutcome::Finished(Step(12)))));
    }
    let tally = memory.tally();
    assert!(tally.failed > 10 && tally.lost > 10, "{tally:?}");
    let calm = objects(&folder);
    let faulty = objects(&faulty);
    assert_eq!(calm.keys().collect::<Vec<_>>(), faulty.keys().collect::<Vec<_>>());
    for (name, bytes) in &calm {
        assert!(faulty[name] == *bytes, "{name} differs");
    }
    assert!(calm.keys().any(|name| name == "checkpoints/step-00000012/state.json"), "{:?}", calm.keys());
}

#[test]
fn checkpoint_with_inconsistent_rows_and_steps_is_refused() {
    let _alone = testing::generator();
    let store = calm();
    let mut last = train(&store, ApiError { waiting_for: Some(15), ..ApiError::default() }).last.expect("saved");
    last.state.rows_consumed -= 4;
    last.write(&store, &keep(2)).expect("written");
    let error = train(&store, ApiError::default()).outcome.expect_err("half a step").to_string();
    assert!(error.contains("7 steps took 52 rows, but 8 rows a step make 56"), "{error}");
}

#[test]
#[should_panic(expected = "is not the one that is due")]
fn another_batch_than_the_one_that_is_due_ends_the_run() {
    let _alone = testing::generator();
    train(&calm(), ApiError { late: true, ..ApiError::default() });
}

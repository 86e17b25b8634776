//! Tests of the event format, each over one example of every kind.

mod examples;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use schemas::ordinal::Step;
use serde_json::{Map, Value};

use self::examples::{PLACE, STAMP, event, golden, golden_line, mixing, named, prepare_end, step_report, valid_report};
use crate::preparation::PrepareEnd;
use crate::training::{
    DeviceMemory, DevicePeak, Speed, StartReport, StepReport, StopReason, StopReport, ValidReport, Warning,
};
use crate::{Event, EventKind, Fanout, Observer, Position, Unknown, event_text, jsonl};

const ENVELOPE: &[&str] = &["version", "time", "elapsed_s", "kind", "step", "epoch", "rows_seen", "tokens_seen"];

#[test]
fn every_kind_has_an_example() {
    let found: Vec<String> = golden().iter().map(|(what, ..)| what.kind().to_owned()).collect();
    assert_eq!(found, EventKind::KINDS);
}

#[test]
fn the_json_of_every_kind_is_stable() {
    for (what, line, _) in golden().into_iter().chain(mixing()) {
        assert_eq!(jsonl::line(&event(&what)), golden_line(&what, line));
    }
}

#[test]
fn every_line_of_this_version_is_readable() {
    for (what, line, _) in golden().into_iter().chain(mixing()) {
        let read = jsonl::parse(golden_line(&what, line).as_bytes()).expect(line);
        assert_eq!(read, event(&what));
    }
}

#[test]
fn the_text_of_every_kind_is_stable() {
    for (what, _, line) in golden().into_iter().chain(mixing()) {
        assert_eq!(event_text::line(&event(&what)).as_deref(), line);
    }
    let results: Vec<&str> = ["start", "report", "validation", "prepare_end"].into();
    let found = golden().into_iter().filter(|(what, ..)| event_text::is_result(&event(what)));
    assert_eq!(found.map(|(what, ..)| what.kind().to_owned()).collect::<Vec<_>>(), results);
}

#[test]
fn a_summary_is_the_line_without_position_and_severity() {
    for (what, ..) in golden().into_iter().chain(mixing()) {
        let event = event(&what);
        let Some(summary) = event_text::summary(&event) else { continue };
        assert!(!summary.contains('\n') && !summary.starts_with("warning: "), "{summary}");
        let line = event_text::line(&event).unwrap_or_default().replace('\n', "; ");
        // These summaries also have details that the terminal prints in other lines.
        let is_longer = matches!(
            what,
            EventKind::Stop(_)
                | EventKind::Resume(_)
                | EventKind::Checkpoint(_)
                | EventKind::BadRow(_)
                | EventKind::Environment(_)
        );
        assert!(is_longer || line.ends_with(&summary), "{}: `{summary}` is not in `{line}`", what.kind());
    }
    let stop = |saved: bool, step: u64| {
        let line = format!(
            r#"{{"version":2,"time":0,"elapsed_s":0,"step":{step},"kind":"stop","why":"failed","saved":{saved},"place":"a","error":"no room"}}"#
        );
        event_text::summary(&jsonl::parse(line.as_bytes()).expect("an event")).expect("a text")
    };
    assert_eq!(stop(true, 7), "failed after step 7, which is saved: no room");
    assert_eq!(stop(false, 7), "failed after step 7, which is not saved; there is no checkpoint yet: no room");
    assert_eq!(stop(false, 0), "failed: no room");
}

#[test]
fn a_line_shows_optional_values_only_if_they_exist() {
    let seen = |what: EventKind| event_text::line(&event(&what));
    let shown = |what: EventKind| seen(what).expect("a line");
    let mut report = step_report();
    report.figures.skipped = 2;
    report.speed =
        Speed { tokens_per_s: 950.0, steps_per_s: None, mfu: None, data_wait: 0.0, checkpoint_stall: 0.0, eta_s: None };
    let line = "step 1200  loss 3.4100 (mlm 2.9000, tc 0.5100)  lr 1.0e-4  norm 0.80  950 tok/s  wait 0.0 %  skipped 2";
    assert_eq!(shown(EventKind::Report(report.clone())), line);
    report.memory =
        Some(DeviceMemory { allocated_peak_bytes: 3 << 30, reserved_peak_bytes: 4 << 30, total_bytes: 80 << 30 });
    let line = line.replace("  skipped", "  memory 3.0 GiB of 80.0 GiB  skipped");
    assert_eq!(shown(EventKind::Report(report.clone())), line);
    report.progress = Some(0.125);
    let line = line.replace("  skipped", "  12.5 % done  skipped");
    assert_eq!(shown(EventKind::Report(report.clone())), line);
    let kept = serde_json::to_value(&report).expect("plain data");
    assert_eq!(kept["memory"]["reserved_peak_bytes"], 4_u64 << 30);
    assert_eq!(serde_json::from_value::<StepReport>(kept).expect("as written"), report);
    let valid = EventKind::Validation(ValidReport { mlm: None, ..valid_report() });
    assert_eq!(shown(valid), "step 1200  valid loss 5.1859 (mlm 5.1559, tc 0.0300)");
    let metrics = named(&[("task.accuracy", 0.75), ("task.f1", 0.5)]);
    let task =
        EventKind::Validation(ValidReport { mlm: None, terms: named(&[("task", 0.5)]), metrics, ..valid_report() });
    assert_eq!(shown(task), "step 1200  valid loss 5.1859 (task 0.5000)  task.accuracy 0.7500  task.f1 0.5000");
    let given = StartReport {
        random: false,
        terms: named(&[("mlm", 2.5)]),
        expected: BTreeMap::new(),
        unexpected_losses: Vec::new(),
    };
    assert_eq!(shown(EventKind::Start(given)), "step 1200  started from given weights: mlm 2.5000");
    let stop = |why, saved, kept: Option<u64>| {
        let place = "runs/a".to_owned();
        let kept = kept.map(Step);
        EventKind::Stop(StopReport { why, saved, kept, place, error: None, memory: None })
    };
    assert_eq!(shown(stop(StopReason::Finished, true, Some(1200))), "done: 1200 steps; checkpoints are in runs/a");
    let EventKind::Stop(finished) = stop(StopReason::Finished, true, Some(1200)) else {
        unreachable!("it was just made")
    };
    let memory = Some(DevicePeak { peak_bytes: 3 << 30, planned_bytes: 5 << 29 });
    assert_eq!(
        shown(EventKind::Stop(StopReport { memory, ..finished })),
        "done: 1200 steps; checkpoints are in runs/a; device memory: peak 3.0 GiB, planned 2.5 GiB"
    );
    for why in [StopReason::Interrupt, StopReason::Terminate, StopReason::Hangup, StopReason::Requeue] {
        let line = "stopped and saved after step 1200; the same command continues";
        assert_eq!(shown(stop(why, true, Some(1200))), line);
    }
    // The text names lost steps.
    assert_eq!(
        shown(stop(StopReason::Interrupt, false, None)),
        "stopped after step 1200, which is not saved; there is no checkpoint yet; the same command continues"
    );
    assert_eq!(
        shown(stop(StopReason::Failed, false, Some(1000))),
        "failed after step 1200, which is not saved; the newest checkpoint is at step 1000"
    );
    assert_eq!(seen(stop(StopReason::Failed, true, Some(1200))), None, "the caller prints the error");
    let nothing = PrepareEnd { nothing_to_do: true, parts_kept: 4, ..prepare_end() };
    assert_eq!(shown(EventKind::PrepareEnd(nothing)), "corpus: nothing to do, all 4 parts exist");
}

/// Replaces every number that is not an integer by `value`.
fn overwrite_floats(json: &mut Value, value: &str, changed: &mut usize) {
    match json {
        Value::Number(number) if number.is_f64() => {
            *json = Value::String(value.to_owned());
            *changed += 1;
        }
        Value::Array(items) => items.iter_mut().for_each(|item| overwrite_floats(item, value, changed)),
        Value::Object(fields) => fields.values_mut().for_each(|field| overwrite_floats(field, value, changed)),
        _ => {}
    }
}

#[test]
fn every_number_of_every_kind_may_be_infinite_or_nan() {
    for (what, line, _) in golden().into_iter().chain(mixing()) {
        for value in ["NaN", "Infinity", "-Infinity"] {
            let mut json: Value = serde_json::from_str(&golden_line(&what, line)).expect("JSON");
            let mut changed = 0;
            overwrite_floats(&mut json, value, &mut changed);
            assert!(changed > 0, "elapsed time at least");
            let read = jsonl::parse(json.to_string().as_bytes()).expect(line);
            let written: Value = serde_json::from_str(&jsonl::line(&read)).expect("JSON");
            assert_eq!(written, json, "{}", what.kind());
            // The text of such an event must not panic.
            let _ = event_text::line(&read);
        }
    }
}

#[test]
fn a_diverged_loss_is_written_and_read() {
    let mut report = step_report();
    report.figures.loss = f64::NAN;
    report.figures.grad_norm = f64::INFINITY;
    let line = jsonl::line(&event(&EventKind::Report(report)));
    assert!(line.contains(r#""loss":"NaN""#) && line.contains(r#""grad_norm":"Infinity""#), "{line}");
    let EventKind::Report(read) = jsonl::parse(line.as_bytes()).expect("readable").what else { panic!("another kind") };
    assert!(read.figures.loss.is_nan() && read.figures.grad_norm == f64::INFINITY);
}

#[test]
fn no_payload_has_a_key_of_the_envelope() {
    for (what, ..) in golden() {
        let json = serde_json::to_value(&what).expect("plain data");
        let keys: BTreeSet<&str> = json.as_object().expect("an object").keys().map(String::as_str).collect();
        let taken: Vec<_> = ENVELOPE.iter().filter(|&&key| key != "kind" && keys.contains(key)).collect();
        assert!(taken.is_empty(), "{}: {taken:?}", what.kind());
    }
}

#[test]
fn a_kind_of_a_later_program_is_kept_whole() {
    let line = format!(r#"{STAMP}"step":7,"kind":"temperature","celsius":81.5,"of":{{"gpu":[0,1]}}}}"#);
    let event = jsonl::parse(line.as_bytes()).expect("an old reader continues");
    let fields: Map<String, Value> = serde_json::from_str(r#"{"celsius":81.5,"of":{"gpu":[0,1]}}"#).expect("an object");
    assert_eq!(event.what, EventKind::Unknown(Unknown { kind: "temperature".to_owned(), fields }));
    assert_eq!((event.what.kind(), event.at.step), ("temperature", Some(Step(7))));
    assert_eq!((jsonl::line(&event), event_text::line(&event)), (line, None));
}

#[test]
fn event_of_a_later_version_is_refused() {
    // A later version may report the loss in bits.
    let line = r#"{"version":3,"time":1,"elapsed_s":0.5,"step":7,"kind":"report","loss":4.5}"#;
    let event = jsonl::parse(line.as_bytes()).expect("an old reader continues");
    assert!(matches!(&event.what, EventKind::Unknown(unknown) if unknown.kind == "report"), "{event:?}");
    assert_eq!(jsonl::line(&event), line);
}

#[test]
fn new_keys_are_ignored_and_new_reasons_are_other() {
    let line = format!(r#"{STAMP}{PLACE}"kind":"stop","why":"budget","saved":true,"place":"runs/a","joules":5}}"#);
    let EventKind::Stop(stop) = jsonl::parse(line.as_bytes()).expect("readable").what else { panic!("another kind") };
    assert_eq!((stop.why, stop.saved, stop.kept), (StopReason::Other, true, None));
}

#[test]
fn keys_that_were_added_later_have_defaults() {
    let later = ["dataset_version", "change", "bytes_read", "text_bytes_made", "forgotten", "tokenized_by"];
    for (what, line, _) in golden().into_iter().filter(|(what, ..)| what.kind().starts_with("prepare_")) {
        let mut json: Map<String, Value> = serde_json::from_str(&golden_line(&what, line)).expect("JSON");
        json.retain(|key, _| !later.contains(&key.as_str()));
        let read = jsonl::parse(Value::Object(json).to_string().as_bytes()).expect("an older line");
        match read.what {
            EventKind::PrepareStart(start) => {
                assert_eq!((start.dataset_version, start.change, start.tokenized_by), Default::default());
            }
            EventKind::PrepareEnd(end) => {
                assert_eq!((end.dataset_version, end.change), Default::default());
                assert_eq!((end.bytes_read, end.text_bytes_made, end.forgotten), (0, 0, 0));
            }
            other => assert_eq!(other, what),
        }
    }
}

#[test]
fn optional_keys_may_be_missing() {
    let line = format!(r#"{STAMP}"kind":"warning","topic":"t","message":"m"}}"#);
    let event = jsonl::parse(line.as_bytes()).expect("no place, no hint");
    assert_eq!((event.at, jsonl::line(&event)), (Position::default(), line));
    assert_eq!(event_text::line(&event).as_deref(), Some("warning: m"));
}

#[test]
fn the_error_of_an_invalid_line_has_a_cause() {
    let error = |line: &[u8]| jsonl::parse(line).expect_err("no event").to_string();
    let cases: [(&[u8], &str); 7] = [
        (b"", "truncated or damaged"),
        (b"{\"version\": 1, \"ti", "truncated or damaged"),
        (b"{\"version\xff\": 1}", "truncated or damaged"),
        (b"[]", "another program wrote it"),
        (b"{\"step\": 10}", "missing field `version`"),
        (br#"{"version":2,"time":1,"elapsed_s":0.5,"step":7,"kind":"resume"}"#, "kind `resume`: missing field `place`"),
        (br#"{"version":2,"time":1,"elapsed_s":0.5,"step":-7,"kind":"resume","place":""}"#, "invalid value"),
    ];
    for (line, expected) in cases {
        let found = error(line);
        assert!(found.starts_with("not an event: ") && found.contains(expected), "{found}");
    }
}

#[test]
fn a_text_of_many_lines_is_one_line_of_a_log() {
    let warning = Warning { topic: "t".to_owned(), message: "one\ntwo\r\u{2028}".to_owned(), hint: None };
    let event = event(&EventKind::Warning(warning));
    let line = jsonl::line(&event);
    assert!(!line.contains(['\n', '\r']), "{line}");
    assert_eq!(jsonl::parse(format!("{line}\n").as_bytes()).expect("with its newline"), event);
}

/// Observer that records every event. Clones share the record.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<Event>>>);

impl Recorder {
    fn events(&self) -> Vec<Event> {
        self.0.lock().expect("no holder of this lock panics").clone()
    }
}

impl Observer for Recorder {
    fn observe(&mut self, event: &Event) {
        self.0.lock().expect("no holder of this lock panics").push(event.clone());
    }
}

#[test]
fn all_observers_receive_all_events_in_order() {
    let [one, two] = [Recorder::default(), Recorder::default()];
    let inner = Fanout(vec![Box::new(two.clone())]);
    let mut many = Fanout(vec![Box::new(one.clone()), Box::new(inner)]);
    let emitted: Vec<Event> = golden().iter().map(|(what, ..)| event(what)).collect();
    // An observer must be `Send`: it moves to the emitting thread.
    let received = std::thread::scope(|scope| {
        scope.spawn(|| emitted.iter().for_each(|event| many.observe(event))).join().expect("no panic");
        one.events()
    });
    assert_eq!((received, two.events()), (emitted.clone(), emitted));
}

//! Events of a preparation.

use std::sync::{Arc, Mutex};

use telemetry::preparation::{PartDone, PrepareEnd, PrepareProgress, PrepareStart, StageSeconds};
use telemetry::{Event, jsonl};

use super::dataset_versions::many;
use super::dataset_versions::text;
use super::*;

/// In-memory event log; the test keeps a handle to it.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// Returns all events.
    pub(super) fn said(&self) -> Vec<EventKind> {
        let lines = self.0.lock().expect("no holder of this lock panics");
        lines.iter().map(|line| jsonl::parse(line.as_bytes()).expect("an event").what).collect()
    }
}

impl Observer for Log {
    fn observe(&mut self, event: &Event) {
        self.0.lock().expect("no holder of this lock panics").push(jsonl::line(event));
    }
}

/// Contents of the event log, with parts by their numbers.
struct Story {
    start: PrepareStart,
    progress: Vec<PrepareProgress>,
    parts: Vec<PartDone>,
    end: PrepareEnd,
}

/// Parses a log: one start, one end, and a progress event after each part.
fn read(log: &Log) -> Story {
    let lines = log.0.lock().expect("no holder of this lock panics");
    let mut said: Vec<EventKind> =
        lines.iter().map(|line| jsonl::parse(line.as_bytes()).expect("an event").what).collect();
    let Some(EventKind::PrepareEnd(end)) = said.pop() else { panic!("{lines:?}") };
    let mut said = said.into_iter();
    let Some(EventKind::PrepareStart(start)) = said.next() else { panic!("{lines:?}") };
    let mut progress = Vec::new();
    let mut parts = Vec::new();
    let mut last = None;
    for what in said {
        match what {
            EventKind::PartDone(part) => {
                assert!(last.replace(part.part).is_none(), "no word between two parts: {lines:?}");
                parts.push(part);
            }
            EventKind::PrepareProgress(now) => {
                last = None;
                progress.push(now);
            }
            other => panic!("`{}` in the middle", other.kind()),
        }
    }
    assert_eq!(last, None, "the last part is followed by how far it is");
    parts.sort_by_key(|part| part.part);
    Story { start, progress, parts, end }
}

fn tell(config: &PrepareConfig, options: PrepareOptions) -> (PrepareSummary, Story) {
    let mut log = Log::default();
    let summary = run(config, options, &Clock::still(), &mut log).expect("prepared");
    (summary, read(&log))
}

#[test]
fn events_record_the_preparation() {
    let home = Home::packed("sentences");
    for null_writer in [true, false] {
        let (summary, story) = tell(&home.config, PrepareOptions { null_writer, ..PrepareOptions::default() });
        let Story { start, progress, parts, end } = story;
        assert_eq!((start.files, start.parts, start.change), (6, parts.len() as u64, None));
        let numbers: Vec<u32> = parts.iter().map(|part| part.part).collect();
        assert_eq!(numbers, (0..u32::try_from(parts.len()).expect("few")).collect::<Vec<_>>(), "each part once");
        let sum = |count: fn(&PartDone) -> u64| parts.iter().map(count).sum::<u64>();
        assert_eq!(sum(|part| part.bytes), start.bytes);
        assert_eq!((sum(|part| part.documents), sum(|part| part.tokens)), (end.documents, end.tokens));
        assert_eq!(sum(|part| part.samples), end.samples);
        assert!(parts.iter().all(|part| !part.kept), "made by this run");
        assert!(progress.is_sorted_by(|a, b| (a.bytes, a.parts, a.tokens) <= (b.bytes, b.parts, b.tokens)));
        let last = progress.last().expect("some");
        assert_eq!((last.bytes, last.parts, last.tokens), (last.bytes_total, last.parts_total, end.tokens));
        assert_eq!((last.bytes_total, last.parts_total, last.bytes_kept), (start.bytes, start.parts, 0));
        assert_eq!(end, summary.end(home.config.folder.display().to_string()), "nothing is lost on the way");
        assert_eq!((end.documents, end.samples, end.parts_made), (243, summary.rows, start.parts));
        assert_eq!(summary.workers.iter().map(|worker| worker.items).sum::<u64>(), start.parts);
    }
}

#[test]
fn events_are_equal_for_any_number_of_workers() {
    let home = Home::packed("block");
    let [one, four] = [1, 4].map(|workers| {
        let (_, mut story) = tell(&home.config(&workers.to_string(), workers), PrepareOptions::default());
        // Threads, memory limit, place and time.
        assert_eq!(story.start.text_bytes_max % workers as u64, 0);
        (story.start.workers, story.start.text_bytes_max) = (0, 0);
        (story.end.place, story.end.seconds, story.end.stages) = (String::new(), 0.0, StageSeconds::default());
        let last = story.progress.pop().map(|last| PrepareProgress {
            text_bytes_per_s: 0.0,
            tokens_per_s: 0.0,
            eta_s: None,
            ..last
        });
        (story.start, story.parts, last, story.end)
    });
    assert_eq!(one, four);
}

#[test]
fn events_record_existing_and_changed_parts() {
    let home = Home::new();
    let (first, _) = tell(&home.config, PrepareOptions::default());
    let (_, story) = tell(&home.config, PrepareOptions::default());
    assert_eq!(story.parts.iter().filter(|part| part.kept).count() as u64, first.parts_made);
    assert!(story.end.nothing_to_do);
    assert_eq!((story.end.parts_kept, story.end.text_bytes_made), (first.parts_made, 0));
    let last = story.progress.last().expect("some");
    assert_eq!((last.bytes_kept, last.eta_s), (last.bytes_total, None), "nothing of it was done by this run");

    write_all(home.folder.path(), &[("in/new.txt", "the cat")]);
    let (_, story) = tell(&home.config, PrepareOptions::default());
    let change = "1 file added: dataset version 1 drops 0 parts and makes 1 part";
    assert_eq!((story.start.dataset_version, story.start.change.as_deref()), (DatasetVersion(1), Some(change)));
    assert_eq!((story.end.dataset_version, story.end.change), (DatasetVersion(1), story.start.change));
    assert_eq!((story.end.parts_made, story.end.text_bytes_made), (1, 7));
    let made: Vec<&PartDone> = story.parts.iter().filter(|part| !part.kept).collect();
    assert!(matches!(made[..], [PartDone { bytes: 7, documents: 1, .. }]), "{made:?}");
}

#[test]
fn the_report_adds_up() {
    let home = Home::new();
    let (summary, Story { end, .. }) = tell(&home.config, PrepareOptions::default());
    assert_eq!((end.documents, end.lines), (240, 240));
    assert!(end.tokens_per_word() > 1.0 && end.padding_share() > 0.0 && end.padding_share() < 0.5);
    let is_shard = |name: &str| name.starts_with("train/") || name.starts_with("valid/");
    let shards = home.data().into_iter().filter(|(name, _)| is_shard(name));
    assert_eq!(end.shard_bytes, shards.map(|(_, bytes)| bytes.len() as u64).sum::<u64>());
    assert!(end.unknown_rate() > 0.05, "hats and most numbers are not in the vocabulary");
    assert!(matches!(&end.warnings[..], [unknown] if unknown.contains("cloze tokenizer train")), "{:?}", end.warnings);
    let plan = Preparation::plan(&home.config).expect("valid").describe();
    assert_eq!((plan.files, plan.parts as u64, plan.largest_compressed), (3, summary.parts_made, None));
    let config = PrepareConfig { valid_fraction: 0.0, ..home.config("all", 1) };
    let (_, Story { end, .. }) = tell(&config, PrepareOptions::default());
    assert!(end.warnings[0].contains("`prepare.valid_fraction`"), "{:?}", end.warnings);
}

/// The warning about dropped parts names the affected runs.
#[test]
fn dropping_parts_names_their_dataset_versions() {
    let home = many();
    home.run().expect("prepared");
    home.put(77, &text(77, 9));
    home.run().expect("prepared");
    fs::remove_file(home.folder.path().join("in/13.txt")).expect("there");
    let summary = home.run().expect("prepared");
    let told = summary.change.expect("a part went").to_string();
    assert!(
        told.ends_with("; runs over dataset versions 0 to 1 that would read dropped parts again are refused"),
        "{told}"
    );
    home.put(77, &text(77, 3));
    let told = home.run().expect("prepared").change.expect("a part went").to_string();
    assert!(
        told.contains("dataset version 3 drops 1 part") && told.contains("over dataset versions 1 to 2 "),
        "{told}"
    );
}

/// Two documents of one id are named once, and only where a field has the ids.
#[test]
fn documents_that_share_an_id_are_reported() {
    let home = Home::new();
    let line = |id: &str, text: &str| format!("{{\"id\": \"{id}\", \"text\": \"the {text} sat on the mat\"}}\n");
    let more: String = (0..40).map(|number| line(&format!("n{number}"), "mat")).collect();
    let files = [
        ("in/a.jsonl", line("x", "cat") + &line("y", "cat") + &more),
        ("in/b.jsonl", line("x", "hat") + &line("z", "cat")),
    ];
    write_all(home.folder.path(), &files);
    let warned = |id_field: Option<&str>, folder: &str| -> Vec<String> {
        let id_field = id_field.map(str::to_owned);
        let folder = home.folder.path().join(folder);
        let config = PrepareConfig { format: format("jsonl"), id_field, folder, ..home.config.clone() };
        let mut log = Log::default();
        run(&config, PrepareOptions::default(), &Clock::still(), &mut log).expect("prepared");
        let warnings = log.said().into_iter().filter_map(|what| match what {
            EventKind::Warning(warning) if warning.topic == "duplicate_ids" => Some(warning.message),
            _ => None,
        });
        warnings.collect()
    };
    assert_eq!(warned(None, "texts"), Vec::<String>::new(), "equal texts are no mistake");
    let found = warned(Some("id"), "ids");
    assert_eq!(found.len(), 1, "{found:?}");
    for words in ["1 document has the id of an earlier one", "`x`: ", "a.jsonl, bytes 0 to ", "b.jsonl, bytes 0 to "] {
        assert!(found[0].contains(words), "`{words}` is missing in {found:?}");
    }
    assert_eq!(warned(Some("id"), "ids"), Vec::<String>::new(), "nothing new is published");
}

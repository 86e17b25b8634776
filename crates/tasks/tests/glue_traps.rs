//! Files of GLUE that are not at hand, in their layout: QQP with malformed lines, MNLI with 12 and 16 columns.

use std::path::Path;

use tasks::read::ReadCounts;
use tasks::task::ExampleSet;
use tasks::{AnyTask, Example, ExampleReader, Gold, RowError};

fn task(kind: &str) -> AnyTask {
    AnyTask::of_kind(kind).unwrap_or_else(|| panic!("no task `{kind}`"))
}

fn set(task: &AnyTask, name: &str) -> ExampleSet {
    task.sets().into_iter().find(|set| set.name == name).unwrap_or_else(|| panic!("no set `{name}`"))
}

/// Examples of a file, and the counts of its reader.
struct Outcome {
    examples: Vec<Example>,
    errors: Vec<RowError>,
    counts: ReadCounts,
}

#[expect(clippy::disallowed_methods, reason = "a test file")]
fn read(folder: &Path, kind: &str, name: &str, text: &str) -> Outcome {
    let task = task(kind);
    let set = set(&task, name);
    let path = folder.join(&set.file);
    std::fs::write(&path, text).expect("room for it");
    let mut reader = ExampleReader::open(&path, &set.layout, &task.output()).expect("it exists");
    let mut examples = Vec::new();
    let mut errors = Vec::new();
    for read in reader.by_ref() {
        match read {
            Ok(example) => examples.push(example),
            Err(error) => errors.push(error),
        }
    }
    Outcome { examples, errors, counts: reader.counts() }
}

#[test]
fn malformed_lines_of_qqp_are_dropped_and_counted_in_labelled_files_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n";
    let text =
        format!("{header}1\t2\t3\tIs it \"so?\tWhy?\t1\n4\t5\t6\tcut\n7\t8\t9\ta\tb\tc\t0\n10\t11\t12\tWho?\tWhat?\t0");
    let read_train = read(folder.path(), "qqp", "train", &text);
    assert_eq!(read_train.counts, ReadCounts { examples: 2, invalid: 0, dropped: 2, blank: 0 });
    assert_eq!(read_train.examples[0].first, "Is it \"so?");
    assert_eq!(read_train.examples[1].gold, Gold::Class(0));
    let test = read(folder.path(), "qqp", "test", "id\tquestion1\tquestion2\n0\ta\tb\n1\tc\n");
    assert_eq!((test.examples.len(), test.errors.len()), (1, 1), "each test line needs a prediction");
}

#[test]
fn labels_of_mnli_are_found_by_name_in_12_and_in_16_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    let columns = |labels: usize| {
        let shared = ["index", "promptID", "pairID", "genre", "p1", "p2", "p3", "p4", "sentence1", "sentence2"];
        let annotators = (1..=labels).map(|number| format!("label{number}"));
        shared.map(str::to_owned).into_iter().chain(annotators).chain(["gold_label".to_owned()]).collect::<Vec<_>>()
    };
    for (name, labels) in [("train", 1), ("dev_matched", 5), ("dev_mismatched", 5)] {
        let header = columns(labels);
        let mut row: Vec<String> = header.iter().map(|name| format!("{name} text")).collect();
        row[9] = "A hypothesis.".to_owned();
        for label in &mut row[10..] {
            "entailment".clone_into(label);
        }
        *row.last_mut().expect("columns") = "contradiction".to_owned();
        assert_eq!(header.len(), if labels == 1 { 12 } else { 16 });
        let outcome = read(folder.path(), "mnli", name, &format!("{}\n{}\n", header.join("\t"), row.join("\t")));
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
        assert_eq!(outcome.examples[0].gold, Gold::Class(2), "{name}");
        assert_eq!(outcome.examples[0].second.as_deref(), Some("A hypothesis."));
    }
}

#[test]
fn cola_has_a_header_in_its_test_file_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let train = read(folder.path(), "cola", "train", "gj04\t1\t\tIt rains.\ncj99\t0\t*\tRains it.");
    assert_eq!(train.examples.iter().map(|it| it.first.as_str()).collect::<Vec<_>>(), ["It rains.", "Rains it."]);
    let test = read(folder.path(), "cola", "test", "index\tsentence\n0\tIt rains.\n");
    assert_eq!((test.examples.len(), &test.examples[0].gold), (1, &Gold::None));
}

#[test]
fn tasks_without_a_model_of_their_own_say_so() {
    assert_eq!(task("ax").trained_as(), Some("mnli"));
    assert_eq!(task("wnli").constant_prediction(), Some(0));
    let others = AnyTask::examples().into_iter().filter(|task| task.constant_prediction().is_some());
    assert_eq!(others.count(), 1);
}

//! Contract tests, run over every registered task.

use std::collections::BTreeSet;

use crate::average::Convention;
use crate::example::{Example, Gold, TaskOutput};
use crate::layout::{ColumnRef, FileLayout, GoldColumns, TableFormat, TableLayout};
use crate::read::ExampleReader;
use crate::submission::{Predicted, write_glue};
use crate::task::{AnyTask, ExampleSet, SetPurpose};

/// Runs a check on every task, with its name.
fn each(check: impl Fn(&AnyTask, &str)) {
    for task in AnyTask::examples() {
        check(&task, task.kind());
    }
}

#[test]
fn every_task_survives_toml_and_refuses_unknown_keys() {
    each(|task, name| {
        let text = toml::to_string(task).expect("a table");
        assert!(text.contains(&format!("kind = \"{name}\"\n")), "{name}: {text}");
        assert_eq!(toml::from_str::<AnyTask>(&text).expect("of this version"), *task, "{name}");
        assert!(toml::from_str::<AnyTask>(&format!("unknown = 1\n{text}")).is_err(), "{name}");
        assert!(task.problems().is_empty(), "{name}: {:?}", task.problems());
    });
}

#[test]
fn every_task_has_labels_or_a_range() {
    each(|task, name| {
        let output = task.output();
        let labels: BTreeSet<_> = output.labels().iter().collect();
        assert_eq!(labels.len(), output.labels().len(), "{name}: one label twice");
        match &output {
            TaskOutput::Class { labels } | TaskOutput::WordLabels { labels } => assert!(labels.len() > 1, "{name}"),
            TaskOutput::Score { range } => assert!(range.start() < range.end(), "{name}"),
            TaskOutput::Spans { .. } => {}
        }
        assert!(output.width() > 0, "{name}");
        let constant = task.constant_prediction();
        assert!(constant.is_none_or(|label| (label as usize) < output.labels().len()), "{name}");
    });
}

#[test]
fn every_prompt_fits_the_task() {
    each(|task, name| {
        let Some(prompt) = task.prompt() else { return };
        let has_second = |set: &ExampleSet| match &set.layout {
            FileLayout::Table(table) => table.columns.second.is_some(),
            FileLayout::SquadJson | FileLayout::WordFile(_) => false,
        };
        let problems = prompt.problems(task.output().labels().len(), task.sets().iter().any(has_second));
        assert!(matches!(task.output(), TaskOutput::Class { .. }) && problems.is_empty(), "{name}: {problems:?}");
    });
}

#[test]
fn every_metric_is_one_of_the_kind_of_task() {
    each(|task, name| {
        let metrics = task.metrics();
        assert!(!metrics.is_empty(), "{name}");
        assert_eq!(metrics.iter().collect::<BTreeSet<_>>().len(), metrics.len(), "{name}: one metric twice");
        assert!(metrics.iter().all(|metric| metric.applies_to(&task.output())), "{name}: {metrics:?}");
        for &convention in Convention::ALL {
            let primary = task.primary_metrics(convention);
            assert!(!primary.is_empty(), "{name}");
            assert!(primary.iter().all(|metric| metrics.contains(metric)), "{name}: {primary:?}");
        }
    });
}

#[test]
fn every_task_has_files_to_train_and_to_select_or_names_the_task_that_trains() {
    each(|task, name| {
        let sets = task.sets();
        let names: BTreeSet<_> = sets.iter().map(|set| &set.name).collect();
        let files: BTreeSet<_> = sets.iter().map(|set| &set.file).collect();
        assert_eq!((names.len(), files.len()), (sets.len(), sets.len()), "{name}: one name or file twice");
        let count = |purpose| sets.iter().filter(|set| set.purpose == purpose).count();
        match task.trained_as() {
            None => assert!(count(SetPurpose::Train) == 1 && count(SetPurpose::Dev) > 0, "{name}"),
            Some(other) => {
                let other = AnyTask::of_kind(other).unwrap_or_else(|| panic!("{name}: no task `{other}`"));
                assert_eq!(task.output(), other.output(), "{name}");
                assert_eq!(count(SetPurpose::Train), 0, "{name}");
            }
        }
        for set in &sets {
            let is_labelled = has_gold(&set.layout);
            assert!(is_labelled || set.purpose == SetPurpose::Test, "{name}: `{}` has no labels", set.name);
            assert!(set.submission.is_none() || !is_labelled, "{name}: `{}` is submitted and has labels", set.name);
        }
    });
}

#[test]
fn every_file_is_read_as_its_layout_says() {
    let folder = tempfile::tempdir().expect("a folder");
    each(|task, name| {
        for set in task.sets() {
            let golds = golds(&task.output());
            let text = text(&set.layout, &task.output(), &golds);
            let read = read(folder.path(), &set, &task.output(), &text);
            let read: Vec<Example> = read.into_iter().map(|it| it.expect("valid")).collect();
            assert_eq!(read.len(), golds.len(), "{name}: {text}");
            for (example, gold) in read.iter().zip(&golds) {
                assert!(!example.first.is_empty(), "{name}");
                let expected = if has_gold(&set.layout) { gold } else { &Gold::None };
                assert_eq!(&example.gold, expected, "{name}: {text}");
            }
        }
    });
}

#[test]
fn every_file_without_its_columns_is_refused_with_a_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    each(|task, name| {
        for set in task.sets() {
            let read = read(folder.path(), &set, &task.output(), "x\n");
            let errors: Vec<_> = read.into_iter().filter_map(Result::err).collect();
            // A line without header and columns may be a header.
            let is_refused = !errors.is_empty() && errors.iter().all(|error| !error.hint.is_empty());
            let reads_words = matches!(&set.layout, FileLayout::WordFile(layout) if !layout.has_labels);
            assert!(is_refused || reads_words, "{name}: {errors:?}");
        }
    });
}

#[test]
fn every_submission_has_a_line_per_example_and_label_names() {
    each(|task, name| {
        let output = task.output();
        for set in task.sets().iter().filter(|set| set.submission.is_some()) {
            assert!(set.submission.as_ref().is_some_and(|file| file.strip_suffix(".tsv").is_some()), "{name}");
            let ids: Vec<String> = (0..golds(&output).len()).map(|id| id.to_string()).collect();
            let classes: Vec<u32> = (0..).take(ids.len()).collect();
            let scores = vec![9.0; ids.len()];
            let predicted = match output {
                TaskOutput::Score { .. } => Predicted::Scores(&scores),
                _ => Predicted::Classes(&classes),
            };
            let mut out = Vec::new();
            write_glue(&mut out, &output, &ids, predicted).expect("in memory");
            let text = String::from_utf8(out).expect("text");
            assert_eq!(text.lines().count(), ids.len() + 1, "{name}");
            assert!(output.labels().iter().all(|label| text.contains(&format!("\t{label}\n"))), "{name}: {text}");
        }
    });
}

fn has_gold(layout: &FileLayout) -> bool {
    match layout {
        FileLayout::Table(table) => table.columns.gold != GoldColumns::Absent,
        FileLayout::SquadJson => true,
        FileLayout::WordFile(words) => words.has_labels,
    }
}

/// Returns one gold value per label, or a few others.
fn golds(output: &TaskOutput) -> Vec<Gold> {
    match output {
        TaskOutput::Class { labels } => (0..).take(labels.len()).map(Gold::Class).collect(),
        TaskOutput::Score { range } => vec![Gold::Score(*range.start()), Gold::Score(*range.end())],
        TaskOutput::Spans { .. } => {
            vec![Gold::Answers(vec![crate::Answer { text: "sea".to_owned(), start: 5 }])]
        }
        TaskOutput::WordLabels { labels } => {
            vec![Gold::WordLabels((0..).take(labels.len()).collect()), Gold::WordLabels(vec![0])]
        }
    }
}

/// Writes a file of a layout with these gold values.
fn text(layout: &FileLayout, output: &TaskOutput, golds: &[Gold]) -> String {
    match layout {
        FileLayout::Table(table) => match table.format {
            TableFormat::Jsonl => golds.iter().map(|gold| json_row(table, output, gold)).collect(),
            _ => table_text(table, output, golds),
        },
        FileLayout::SquadJson => r#"{"data": [{"paragraphs": [{"context": "é a sea", "qas": [
            {"id": "1", "question": "q", "answers": [{"text": "sea", "answer_start": 4}]}]}]}]}"#
            .to_owned(),
        FileLayout::WordFile(_) => {
            let sentence = |gold: &Gold| {
                let Gold::WordLabels(tags) = gold else { panic!("word labels") };
                let lines = tags.iter().map(|tag| format!("word\t{}\n", output.labels()[*tag as usize]));
                lines.collect::<String>() + "\n"
            };
            golds.iter().map(sentence).collect()
        }
    }
}

fn label(output: &TaskOutput, gold: &Gold) -> String {
    match gold {
        Gold::Class(class) => output.labels()[*class as usize].clone(),
        Gold::Score(score) => format!("{score:.3}"),
        _ => panic!("a class or a score"),
    }
}

fn table_text(table: &TableLayout, output: &TaskOutput, golds: &[Gold]) -> String {
    let columns = &table.columns;
    let gold_column = if let GoldColumns::Label(column) = &columns.gold { Some(column) } else { None };
    let all: Vec<&ColumnRef> =
        columns.id.iter().chain([&columns.first]).chain(&columns.second).chain(gold_column).collect();
    let largest = all.iter().map(|column| if let ColumnRef::Number(number) = column { *number } else { 0 }).max();
    let width = if table.has_header { all.len() } else { largest.unwrap_or(0) + 1 };
    let place = |column: &ColumnRef| match column {
        ColumnRef::Number(number) => *number,
        ColumnRef::Name(_) => all.iter().position(|other| *other == column).expect("one of them"),
    };
    let mut lines = Vec::new();
    if table.has_header {
        let names = all.iter().map(|column| if let ColumnRef::Name(name) = column { name.as_str() } else { "x" });
        lines.push(names.collect::<Vec<_>>().join("\t"));
    }
    for (number, gold) in golds.iter().enumerate() {
        let mut fields = vec![format!("a \"text {number}"); width];
        if let Some(column) = gold_column {
            fields[place(column)] = label(output, gold);
        }
        lines.push(fields.join("\t"));
    }
    lines.join("\n")
}

fn json_row(table: &TableLayout, output: &TaskOutput, gold: &Gold) -> String {
    let mut row = serde_json::json!({ "id": 1, "question": "q", "context": "é a sea", "text": "a text" });
    match (&table.columns.gold, gold) {
        (GoldColumns::Label(_), _) => row["label"] = label(output, gold).into(),
        (GoldColumns::Answers { .. }, _) => {
            row["answers"] = serde_json::json!({ "text": ["sea"], "answer_start": [4] });
        }
        (GoldColumns::Absent, _) => {}
    }
    format!("{row}\n")
}

#[expect(clippy::disallowed_methods, reason = "a test file")]
fn read(
    folder: &std::path::Path,
    set: &ExampleSet,
    output: &TaskOutput,
    text: &str,
) -> Vec<Result<Example, crate::RowError>> {
    let path = folder.join(&set.file);
    std::fs::write(&path, text).expect("room for it");
    ExampleReader::open(&path, &set.layout, output).expect("it exists").collect()
}

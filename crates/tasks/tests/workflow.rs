//! The way from files to tables: examples, windows, answers, metrics, submissions, and summaries.

use std::io::Write as _;
use std::ops::Range;

use tasks::average::{Convention, GlueScores, mean};
use tasks::example::TaskOutput;
use tasks::layout::{ColumnRef, FileLayout, TableFormat, WordFileLayout};
use tasks::metric::answer_report::PredictedAnswer;
use tasks::metric::answers::SquadVersion;
use tasks::metric::{Judged, MetricScore, MetricValue, TaskMetric, UndefinedReason, evaluate};
use tasks::span::{
    Extracted, ExtractionConfig, MaskedLogits, PassageWindow, WindowConfig, WindowLogits, WindowStep, extract_answer,
    max_context, plan_windows,
};
use tasks::statistics::{Evaluation, Summary, best_on_dev, last};
use tasks::submission::{Predicted, QuestionAnswer, write_glue, write_squad};
use tasks::task::DataFiles;
use tasks::{Answer, AnyTask, Example, ExampleReader, Gold};

/// Byte ranges of the words of a text: tokens of a test tokenizer.
fn tokens(text: &str) -> Vec<Range<usize>> {
    let words = text.split(' ').scan(0, |start, word| {
        let range = *start..*start + word.len();
        *start = range.end + 1;
        Some(range)
    });
    words.collect()
}

/// Logits of a model that knows the answer, in a row `[CLS] question [SEP] passage [SEP]`.
fn extract(passage: &[Range<usize>], windows: &[PassageWindow], answer: Option<&Answer>) -> Extracted {
    let context = max_context(windows, passage.len());
    let rows: Vec<_> = windows
        .iter()
        .enumerate()
        .map(|(number, window)| {
            let first = window.question_tokens + 2;
            let row = first + window.passage.len() + 1;
            let mut bytes = vec![None; row];
            let mut has_max_context = vec![false; row];
            let mut start = vec![0.0; row];
            let mut end = vec![0.0; row];
            for (position, token) in (first..).zip(window.passage.clone()) {
                bytes[position] = Some(passage[token].clone());
                has_max_context[position] = context[token] == number;
                let is_start = answer.is_some_and(|answer| answer.start == passage[token].start);
                let is_end = answer.is_some_and(|answer| answer.range().end == passage[token].end);
                start[position] = if is_start { 6.0 } else { -1.0 };
                end[position] = if is_end { 6.0 } else { -1.0 };
            }
            (start, end, bytes, has_max_context)
        })
        .collect();
    let logits: Vec<_> = rows
        .iter()
        .map(|(start, end, bytes, has_max_context)| WindowLogits { start, end, bytes, has_max_context })
        .collect();
    let masked = MaskedLogits::QuestionAndSeparators;
    extract_answer(&ExtractionConfig { masked, null_threshold: Some(0.0), ..ExtractionConfig::default() }, &logits)
}

#[test]
fn questions_go_from_a_file_through_windows_to_metrics() {
    let passage = (0..90).map(|number| format!("word{number}")).collect::<Vec<_>>().join(" ");
    let start = passage.find("word57").expect("it has that word");
    let file = serde_json::json!({ "data": [{ "paragraphs": [{ "context": passage, "qas": [
        { "id": "a", "question": "Which words are in the middle?",
          "answers": [{ "text": "word57 word58", "answer_start": start }] },
        { "id": "b", "question": "Is there an answer?", "answers": [], "is_impossible": true },
    ] }] }] });
    let mut on_disk = tempfile::NamedTempFile::new().expect("a file");
    on_disk.write_all(file.to_string().as_bytes()).expect("room for it");
    let task = AnyTask::of_kind("squad_v2").expect("registered");
    let reader = ExampleReader::open(on_disk.path(), &FileLayout::SquadJson, &task.output()).expect("it exists");
    let examples: Vec<Example> = reader.map(|read| read.expect("valid")).collect();
    let config = WindowConfig { row_tokens: 40, step: WindowStep::Advance(16), ..WindowConfig::default() };
    let mut predictions = Vec::new();
    let mut margins = Vec::new();
    for example in &examples {
        let passage = example.second.as_deref().expect("a passage");
        let tokens = tokens(passage);
        let windows = plan_windows(&config, example.first.split(' ').count(), tokens.len()).expect("there is room");
        assert!(windows.len() > 2);
        let Gold::Answers(golds) = &example.gold else { panic!("answers") };
        let found = extract(&tokens, &windows, golds.first());
        predictions.push(found.bytes.map_or("", |bytes| &passage[bytes]));
        margins.push(f64::from(found.null_margin));
    }
    assert_eq!(predictions, ["word57 word58", ""]);
    let questions = [
        PredictedAnswer { golds: &["word57 word58"], predicted: Some(predictions[0]), no_answer: margins[0] },
        PredictedAnswer { golds: &[], predicted: Some(predictions[1]), no_answer: margins[1] },
    ];
    let judged = Judged::Answers { version: SquadVersion::V2, questions: &questions, threshold: 0.0 };
    for MetricScore { metric, value } in evaluate(&judged, &task.metrics()) {
        assert_eq!(value, MetricValue::Defined(1.0), "{metric}");
    }
    let mut out = Vec::new();
    let answers: Vec<_> =
        examples.iter().zip(&predictions).map(|(it, text)| QuestionAnswer { id: &it.id, text }).collect();
    write_squad(&mut out, &answers).expect("in memory");
    let read: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(read, serde_json::json!({ "a": "word57 word58", "b": "" }));
}

#[test]
fn any_table_is_a_task_by_configuration_alone() {
    let text = r#"
        kind = "custom_classification"
        text = 2
        label = 0
        labels = ["cold", "warm"]
        metric = "macro_f1"
        files = { train = "own.csv", dev = "", header = false }
    "#;
    let task: AnyTask = toml::from_str(text).expect("valid");
    assert_eq!(task.problems(), Vec::<String>::new());
    let folder = tempfile::tempdir().expect("a folder");
    let set = task.sets().remove(0);
    let path = folder.path().join(&set.file);
    let mut file = std::fs::File::options().write(true).create_new(true).open(&path).expect("a new file");
    file.write_all(b"warm,x,\"soup, hot\"\ncold,y,ice\n").expect("room for it");
    let reader = ExampleReader::open(&path, &set.layout, &task.output()).expect("it exists");
    let examples: Vec<Example> = reader.map(|read| read.expect("valid")).collect();
    assert_eq!(examples[0].first, "soup, hot");
    let gold: Vec<u32> = examples.iter().map(|it| if let Gold::Class(class) = it.gold { class } else { 9 }).collect();
    let judged = Judged::Classes { classes: 2, gold: &gold, predicted: &[1, 1] };
    let primary = task.primary_metrics(Convention::default());
    assert_eq!(primary, [TaskMetric::MacroF1]);
    let value = evaluate(&judged, &primary)[0].value.value().expect("a number");
    assert!((value - 1.0 / 3.0).abs() < 1e-12, "{value}");
    let mut out = Vec::new();
    let ids: Vec<String> = examples.into_iter().map(|example| example.id).collect();
    write_glue(&mut out, &task.output(), &ids, Predicted::Classes(&[1, 0])).expect("in memory");
    assert_eq!(String::from_utf8_lossy(&out), "index\tprediction\n0\twarm\n1\tcold\n");
}

#[test]
fn mistakes_in_keys_are_listed() {
    let wrong = r#"
        kind = "custom_token_classification"
        labels = ["O", "O", ""]
        label_column = 0
        metric = "f1"
    "#;
    let task: AnyTask = toml::from_str(wrong).expect("the keys exist");
    assert_eq!(task.problems().len(), 4, "{:?}", task.problems());
    let files = DataFiles { train: "data.xyz".to_owned(), ..DataFiles::default() };
    assert!(files.format.is_none() && TableFormat::from_name(&files.train).is_none());
    let regression = "kind = \"custom_regression\"\nmin = 2.0\nfiles = { train = \"data.xyz\" }";
    let task: AnyTask = toml::from_str(regression).expect("the keys exist");
    assert_eq!(task.problems().len(), 2, "{:?}", task.problems());
    assert_eq!(ColumnRef::from(3).to_string(), "column 3");
}

#[test]
fn words_are_read_and_scored() {
    let labels = ["O", "B-LOC", "I-LOC"].map(str::to_owned).to_vec();
    let output = TaskOutput::WordLabels { labels: labels.clone() };
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(b"To O\nOld B-LOC\nTown I-LOC\n\nHome O\n").expect("room for it");
    let layout = FileLayout::WordFile(WordFileLayout { word_column: 0, label_column: Some(1), has_labels: true });
    let reader = ExampleReader::open(file.path(), &layout, &output).expect("it exists");
    let golds: Vec<Vec<u32>> = reader
        .map(|read| match read.expect("valid").gold {
            Gold::WordLabels(labels) => labels,
            other => panic!("{other:?}"),
        })
        .collect();
    let judged = Judged::Words { labels: &labels, gold: &golds, predicted: &[vec![0, 2, 2], vec![1]] };
    let scores = evaluate(&judged, &[TaskMetric::EntityF1, TaskMetric::Accuracy, TaskMetric::Pearson]);
    let value = |index: usize| scores[index].value.value().expect("a number");
    assert!((value(0) - 2.0 / 3.0).abs() < 1e-12, "I-LOC after O begins an entity");
    assert!((value(1) - 0.5).abs() < 1e-12);
    assert_eq!(scores[2].value, MetricValue::Undefined(UndefinedReason::NotApplicable));
}

#[test]
fn runs_are_summarized_and_tasks_averaged() {
    let at = |step, dev| Evaluation { step, dev: MetricValue::Defined(dev), reported: MetricValue::Defined(dev) };
    let runs = [[at(1, 0.5), at(2, 0.75), at(3, 0.625)], [at(1, 0.25), at(2, 0.5), at(3, 0.25)]];
    let best: Vec<_> = runs.iter().filter_map(|run| best_on_dev(run, true)).map(|it| it.reported).collect();
    let at_end: Vec<_> = runs.iter().filter_map(|run| last(run)).map(|it| it.reported).collect();
    assert_eq!(Summary::new(&best).mean, MetricValue::Defined(0.625));
    assert_eq!(Summary::new(&at_end).median, MetricValue::Defined(0.4375));
    let one = MetricValue::Defined(0.5);
    let scores = GlueScores {
        mnli_matched: one,
        mnli_mismatched: MetricValue::Undefined(UndefinedReason::NoExamples),
        qqp: one,
        qnli: one,
        sst2: one,
        cola: one,
        stsb: one,
        mrpc: one,
        rte: one,
    };
    assert_eq!(Convention::CocoLm.average(&scores), one, "the mismatched set does not count");
    assert_eq!(Convention::FeMlm.average(&scores), MetricValue::Undefined(UndefinedReason::NoExamples));
    assert_eq!(mean(&[one, MetricValue::Defined(1.0)]), MetricValue::Defined(0.75));
}

//! Fuzz targets: files of examples from anywhere.

use super::tests::{classes, read, table, tags};
use super::{MAX_RECORD_BYTES, ReadCounts};
use crate::example::{Example, Gold, TaskOutput};
use crate::layout::{FileLayout, TableFormat, WordFileLayout};

/// Reads bytes. Every line is an example, an error or counted; every range is within its text.
fn check(layout: &FileLayout, output: &TaskOutput, bytes: &[u8]) {
    for max in [64, MAX_RECORD_BYTES] {
        let mut reader = read(layout, output, bytes, max);
        let mut counts = ReadCounts::default();
        for read in reader.by_ref() {
            match read {
                Ok(example) => {
                    counts.examples += 1;
                    check_example(output, &example);
                }
                Err(error) => {
                    counts.invalid += 1;
                    assert!(!error.message.is_empty() && !error.hint.is_empty());
                    assert!(error.to_string().len() < 8000, "{error}");
                }
            }
        }
        assert_eq!((reader.counts().examples, reader.counts().invalid), (counts.examples, counts.invalid));
        assert!(reader.next().is_none(), "a reader that has ended stays so");
        assert!(counts.examples + counts.invalid <= bytes.len() as u64 + 1);
    }
}

fn check_example(output: &TaskOutput, example: &Example) {
    assert!(!example.first.contains('\0') && !example.second.as_deref().unwrap_or_default().contains('\0'));
    let labels = output.labels().len();
    match &example.gold {
        Gold::None => {}
        Gold::Class(class) => assert!((*class as usize) < labels),
        Gold::Score(score) => assert!(score.is_finite()),
        Gold::Answers(answers) => {
            let passage = example.second.as_deref().expect("a passage");
            assert!(answers.iter().all(|answer| passage[answer.range()] == answer.text));
        }
        Gold::WordLabels(tags) => {
            assert_eq!(tags.len(), example.words.len());
            assert!(tags.iter().all(|tag| (*tag as usize) < labels));
            assert!(example.words.iter().all(|word| !example.first[word.clone()].is_empty()));
        }
    }
}

#[test]
fn a_table_is_read_or_refused_line_by_line() {
    let seeds = [
        "\u{feff}text\tlabel\tx\na \" b\tyes\t1\r\nc\tno\t2\n\nd\tyes",
        "text,label\n\"a, \"\"b\"\"\nc\",yes\nd,no\n",
        "{\"text\": \"a\", \"label\": \"yes\"}\n{\"label\": \"no\", \"text\": \"b \\u00e9\"}\n",
    ];
    fuzz::target!("task-table", seeds.map(|seed| seed.as_bytes().to_vec()).to_vec(), |bytes: &[u8]| {
        for format in [TableFormat::Tsv, TableFormat::QuotedTsv, TableFormat::Csv, TableFormat::Jsonl] {
            check(&FileLayout::Table(table(format)), &classes(), bytes);
        }
        let score = TaskOutput::Score { range: 0.0..=5.0 };
        check(&FileLayout::Table(table(TableFormat::Tsv)), &score, bytes);
    });
}

#[test]
fn a_word_file_is_read_or_refused_sentence_by_sentence() {
    let seed = "-DOCSTART- -X- O\n\nAnna NNP B-X\nwalks VB O\n\nto\tTO\tO\nsea\tNN\tI-X\n";
    fuzz::target!("task-words", vec![seed.as_bytes().to_vec()], |bytes: &[u8]| {
        for label_column in [None, Some(1)] {
            let layout = WordFileLayout { word_column: 0, label_column, has_labels: true };
            check(&FileLayout::WordFile(layout), &tags(), bytes);
        }
    });
}

#[test]
fn a_squad_file_is_read_or_refused_article_by_article() {
    let seed = r#"{"version": "v2.0", "data": [{"title": "a", "paragraphs": [{"context": "One é two.", "qas": [
        {"id": "1", "question": "How?", "answers": [{"text": "é two", "answer_start": 4}]},
        {"id": "2", "question": "Why?", "answers": [], "is_impossible": true}]}]}, {"paragraphs": []}]}"#;
    fuzz::target!("task-squad", vec![seed.as_bytes().to_vec()], |bytes: &[u8]| {
        for allows_none in [false, true] {
            check(&FileLayout::SquadJson, &TaskOutput::Spans { allows_none }, bytes);
        }
    });
}

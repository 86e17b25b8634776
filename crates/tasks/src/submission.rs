//! Predictions in the submission formats of GLUE and SQuAD, and as words with labels.

use std::io::{self, Write};

use crate::example::TaskOutput;

/// Predictions of a test set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Predicted<'a> {
    /// Classes.
    Classes(&'a [u32]),
    /// Scores.
    Scores(&'a [f64]),
}

/// Writes a file of GLUE: the header `index`, `prediction`, and a line per example with the name of the predicted label.
/// Scores are limited to the range of gold scores and have three decimals.
///
/// # Panics
/// Panics if there are more or fewer predictions than ids, or if the predictions are not of this kind of task.
pub fn write_glue(
    out: &mut impl Write,
    output: &TaskOutput,
    ids: &[String],
    predicted: Predicted<'_>,
) -> io::Result<()> {
    writeln!(out, "index\tprediction")?;
    match (output, predicted) {
        (TaskOutput::Class { labels }, Predicted::Classes(classes)) => {
            assert_eq!(ids.len(), classes.len(), "one prediction per example");
            let mut lines = ids.iter().zip(classes);
            lines.try_for_each(|(id, &class)| writeln!(out, "{id}\t{}", labels[class as usize]))
        }
        (TaskOutput::Score { range }, Predicted::Scores(scores)) => {
            assert_eq!(ids.len(), scores.len(), "one prediction per example");
            let limited = scores.iter().map(|score| score.clamp(*range.start(), *range.end()));
            ids.iter().zip(limited).try_for_each(|(id, score)| writeln!(out, "{id}\t{score:.3}"))
        }
        _ => panic!("predictions of another kind of task"),
    }
}

/// Predicted answer to a question. An empty text predicts that the question is unanswerable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuestionAnswer<'a> {
    /// Id of the question.
    pub id: &'a str,
    /// Text of the answer.
    pub text: &'a str,
}

/// Writes the predictions of SQuAD: one JSON object of question ids and texts, in this order.
pub fn write_squad(out: &mut impl Write, answers: &[QuestionAnswer<'_>]) -> io::Result<()> {
    out.write_all(b"{")?;
    for (number, answer) in answers.iter().enumerate() {
        out.write_all(if number == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *out, answer.id)?;
        out.write_all(b": ")?;
        serde_json::to_writer(&mut *out, answer.text)?;
    }
    out.write_all(b"\n}\n")
}

/// Writes sentences of words with their labels: one word per line, a blank line after each sentence.
pub fn write_words<'a>(
    out: &mut impl Write,
    sentences: impl IntoIterator<Item = impl IntoIterator<Item = (&'a str, &'a str)>>,
) -> io::Result<()> {
    for sentence in sentences {
        sentence.into_iter().try_for_each(|(word, label)| writeln!(out, "{word}\t{label}"))?;
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glue_files_have_label_names_and_limited_scores() {
        let ids = ["0".to_owned(), "7".to_owned()];
        let labels = ["entailment", "not_entailment"].map(str::to_owned).to_vec();
        let mut out = Vec::new();
        write_glue(&mut out, &TaskOutput::Class { labels }, &ids, Predicted::Classes(&[1, 0])).expect("in memory");
        assert_eq!(String::from_utf8_lossy(&out), "index\tprediction\n0\tnot_entailment\n7\tentailment\n");
        out.clear();
        let output = TaskOutput::Score { range: 0.0..=5.0 };
        write_glue(&mut out, &output, &ids, Predicted::Scores(&[5.4, 1.23456])).expect("in memory");
        assert_eq!(String::from_utf8_lossy(&out), "index\tprediction\n0\t5.000\n7\t1.235\n");
    }

    #[test]
    fn words_have_their_labels() {
        let mut out = Vec::new();
        write_words(&mut out, [vec![("Anna", "B-PER"), ("ate", "O")], vec![]]).expect("in memory");
        assert_eq!(String::from_utf8_lossy(&out), "Anna\tB-PER\nate\tO\n\n\n");
    }

    #[test]
    fn squad_files_are_one_object() {
        let answers = [QuestionAnswer { id: "a\"b", text: "1969" }, QuestionAnswer { id: "c", text: "" }];
        let mut out = Vec::new();
        write_squad(&mut out, &answers).expect("in memory");
        let read: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(read, serde_json::json!({ "a\"b": "1969", "c": "" }));
        out.clear();
        write_squad(&mut out, &[]).expect("in memory");
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&out).expect("JSON"), serde_json::json!({}));
    }
}

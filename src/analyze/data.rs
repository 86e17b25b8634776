//! Data of an analysis, read and tokenized in bounded memory: a sample of the rows and pairs is kept.

use std::collections::BTreeMap;
use std::path::Path;

use analysis::{AnalysisData, Dice, EncodedPair, EncodedSentence, TextRow};
use anyhow::Context as _;
use pipeline::corpus::{AnyFormat, Corpus, FileExtensions};
use pipeline::prepare::PrepareConfig;
use pipeline::tokenize::{HfTokenizer, Tokenizer as _};
use schemas::printable;
use tasks::layout::{ColumnRef, ExampleColumns, FileLayout, GoldColumns, TableFormat, TableLayout, WidthPolicy};
use tasks::{Example, ExampleReader, Gold, TaskOutput};

use crate::cli::{AnalyzeArgs, PairArgs, RowArgs, SentenceArgs};
use crate::exit::Usage;

/// Tokens of the frame of a row.
const FRAME: usize = 2;

/// Reads the data of an analysis for a model with this tokenizer and rows of at most `max_tokens` tokens without frame.
/// Samples depend on the seed and the files only.
///
/// # Errors
/// If a file cannot be read or has nothing to analyze.
pub fn data(args: &AnalyzeArgs, tokenizer: &HfTokenizer, max_tokens: usize) -> anyhow::Result<AnalysisData> {
    let seed = args.common.seed;
    let rows = args.rows.as_ref().map(|rows| text_rows(rows, tokenizer, max_tokens, seed)).transpose()?;
    let pairs = args.pairs.as_ref().map(|pairs| text_pairs(pairs, tokenizer, max_tokens, seed)).transpose()?;
    let sentences = args.sentences.as_ref().map(|given| sentences(given, tokenizer, max_tokens)).transpose()?;
    Ok(AnalysisData {
        rows: rows.unwrap_or_default(),
        pairs: pairs.unwrap_or_default(),
        sentences: sentences.unwrap_or_default(),
    })
}

/// Uniform sample of a stream of unknown length: keeps the items with the smallest random numbers.
struct Sample<T> {
    /// Items by their random number and their place in the stream.
    kept: BTreeMap<(u64, usize), T>,
    offered: usize,
    most: usize,
    dice: Dice,
}

impl<T> Sample<T> {
    fn new(most: usize, seed: u64, purpose: &str) -> Self {
        Self { kept: BTreeMap::new(), offered: 0, most, dice: Dice::new(seed, purpose) }
    }

    /// Offers the next item of the stream.
    fn offer(&mut self, make: impl FnOnce() -> T) {
        let number = self.dice.number();
        let is_full = self.kept.len() >= self.most;
        if !is_full || self.kept.last_key_value().is_some_and(|((largest, _), _)| number < *largest) {
            if is_full {
                self.kept.pop_last();
            }
            self.kept.insert((number, self.offered), make());
        }
        self.offered += 1;
    }

    /// Returns the sample in the order of the stream.
    fn finish(self) -> Vec<T> {
        let mut items: Vec<_> = self.kept.into_iter().map(|((_, place), item)| (place, item)).collect();
        items.sort_unstable_by_key(|(place, _)| *place);
        items.into_iter().map(|(_, item)| item).collect()
    }
}

/// Reads a sample of the rows of a text. Each document is cut into rows of equal length and a rest.
fn text_rows(args: &RowArgs, tokenizer: &HfTokenizer, max_tokens: usize, seed: u64) -> anyhow::Result<Vec<TextRow>> {
    let named = args.format.as_deref().and_then(AnyFormat::of_kind);
    let format = named.or_else(|| format_of(&args.text)).unwrap_or_default();
    let config = PrepareConfig {
        inputs: args.text.clone(),
        format,
        text_field: args.text_field.clone(),
        ..PrepareConfig::default()
    };
    let corpus = Corpus::open(&config.corpus()).map_err(of_options)?;
    let width = args.row_tokens.saturating_sub(FRAME).clamp(1, max_tokens);
    let mut sample = Sample::new(args.max_rows, seed, "rows");
    let mut document = 0;
    for part in corpus.parts().map_err(of_options)? {
        for found in corpus.read(&part)? {
            let Some(found) = found?.document else { continue };
            for ids in tokenizer.ids(&found.text)?.chunks(width) {
                sample.offer(|| TextRow { document, ids: ids.to_vec() });
            }
            document += 1;
        }
    }
    let rows = sample.finish();
    if rows.is_empty() {
        let inputs = args.text.join(", ");
        return Err(Usage(format!("--text {inputs}: the text has no tokens; name files with text")).into());
    }
    Ok(rows)
}

/// Names the options of this command in an error about a corpus, which names keys of a configuration.
fn of_options(error: pipeline::Error) -> anyhow::Error {
    match error {
        pipeline::Error::Config(message) => Usage(message.replace("`prepare.text_field`", "`--text-field`")).into(),
        error if error.is_about_inputs() => Usage(error.to_string()).into(),
        error => error.into(),
    }
}

/// Returns the format by the file extensions. Lines of plain text are documents.
fn format_of(inputs: &[String]) -> Option<AnyFormat> {
    let found = FileExtensions::detect(inputs).format()?;
    if found == AnyFormat::default() { AnyFormat::of_kind("text_lines") } else { Some(found) }
}

/// Reads a sample of the pairs of a file.
fn text_pairs(
    args: &PairArgs,
    tokenizer: &HfTokenizer,
    max_tokens: usize,
    seed: u64,
) -> anyhow::Result<Vec<EncodedPair>> {
    let mut sample: Sample<Example> = Sample::new(args.max_pairs, seed, "pairs");
    let mut lower = 0;
    for example in ExampleReader::open(&args.pairs, &layout(args)?, &SCORES).map_err(|error| usage(&error))? {
        let example = example.map_err(|error| usage(&error))?;
        match (args.min_score, &example.gold) {
            (Some(least), Gold::Score(score)) if *score < least => lower += 1,
            _ => sample.offer(|| example),
        }
    }
    let encode = |text: &str| -> anyhow::Result<Vec<u32>> {
        let mut ids = tokenizer.ids(text)?;
        ids.truncate(max_tokens);
        Ok(ids)
    };
    let pair = |example: Example| -> anyhow::Result<EncodedPair> {
        let first = encode(&example.first)?;
        let second = encode(example.second.as_deref().unwrap_or_default())?;
        Ok(EncodedPair { line: example.line, first, second })
    };
    let pairs = sample.finish().into_iter().map(pair).collect::<anyhow::Result<Vec<_>>>()?;
    if pairs.is_empty() {
        let file = args.pairs.display();
        let why = if lower > 0 { format!("all of its {lower} pairs have a lower score") } else { "no pair".to_owned() };
        return Err(Usage(format!("--pairs {file}: {why}; name a file of pairs, or lower `--min-score`")).into());
    }
    Ok(pairs)
}

/// Any score.
const SCORES: TaskOutput = TaskOutput::Score { range: f64::MIN..=f64::MAX };

fn usage(error: &tasks::RowError) -> anyhow::Error {
    Usage(error.to_string()).into()
}

/// Returns the layout of a file of pairs.
fn layout(args: &PairArgs) -> Result<FileLayout, Usage> {
    let refuse = |problem: &str| Usage(format!("--columns {}: {problem}", args.columns.join(",")));
    let numbers: Vec<Option<usize>> = args.columns.iter().map(|column| column.parse().ok()).collect();
    let has_header = numbers.iter().all(Option::is_none);
    if !has_header && numbers.iter().any(Option::is_none) {
        return Err(refuse("give names or numbers, not both"));
    }
    let column = |at: usize| numbers[at].map_or_else(|| ColumnRef::Name(args.columns[at].clone()), ColumnRef::Number);
    if !(2..=3).contains(&args.columns.len()) {
        return Err(refuse("give two columns of texts, and perhaps one of scores"));
    }
    let gold = match (args.min_score, args.columns.len()) {
        (None, _) => GoldColumns::Absent,
        (Some(_), 2) => return Err(refuse("`--min-score` needs a third column with scores")),
        (Some(_), _) => GoldColumns::Label(column(2)),
    };
    let name = args.pairs.to_string_lossy();
    let format = TableFormat::from_name(&name).unwrap_or_default();
    if !has_header && matches!(format, TableFormat::Jsonl | TableFormat::Parquet) {
        return Err(refuse("columns of this file have names, such as `--columns sentence1,sentence2`"));
    }
    let columns = ExampleColumns { id: None, first: column(0), second: Some(column(1)), gold };
    Ok(FileLayout::Table(TableLayout { format, has_header, columns, width: WidthPolicy::default() }))
}

fn sentences(args: &SentenceArgs, tokenizer: &HfTokenizer, max_tokens: usize) -> anyhow::Result<Vec<EncodedSentence>> {
    let encode = |text: &String| -> anyhow::Result<EncodedSentence> {
        let ids = tokenizer.ids(text).with_context(|| printable(text).into_owned())?;
        if ids.len() > max_tokens || ids.is_empty() {
            let tokens = ids.len();
            let most = max_tokens;
            let problem = format!("it has {tokens} tokens; the model reads rows of 1 to {most}");
            return Err(Usage(format!("--sentence `{}`: {problem}", printable(text))).into());
        }
        Ok(EncodedSentence { text: text.clone(), ids })
    };
    args.sentence.iter().map(encode).collect()
}

/// Returns the name of a model: that of its folder, or its path if another model has the same name.
#[must_use]
pub fn model_name(model: &Path, all: &[std::path::PathBuf]) -> String {
    let same = all.iter().filter(|other| other.file_name() == model.file_name()).count();
    let name = model.file_name().filter(|_| same == 1);
    name.map_or_else(|| model.display().to_string(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_uniform_ordered_and_bounded() {
        let mut counts = [0_i32; 30];
        for seed in 0..3000 {
            let mut sample = Sample::new(3, seed, "test");
            for item in 0..30_usize {
                sample.offer(|| item);
                assert!(sample.kept.len() <= 3);
            }
            let found = sample.finish();
            assert!(found.len() == 3 && found.is_sorted(), "{found:?}");
            for item in found {
                counts[item] += 1;
            }
        }
        // Six standard deviations of a binomial count.
        assert!(counts.iter().all(|&count| (count - 300).abs() < 6 * 17), "{counts:?}");
        let mut all = Sample::new(9, 1, "test");
        (0..5).for_each(|item| all.offer(|| item));
        assert_eq!(all.finish(), [0, 1, 2, 3, 4]);
    }
}

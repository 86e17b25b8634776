//! Arguments of `cloze analyze`: one subcommand per registered analysis, whose options are the fields of its struct.

use std::path::PathBuf;

use analysis::{AnyAnalysis, DataKind};
use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Subcommand, value_parser};
use pipeline::corpus::AnyFormat;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::number;

/// Analysis with its models, data and outputs.
#[derive(Debug)]
pub struct AnalyzeArgs {
    /// Analysis with its options.
    pub analysis: AnyAnalysis,
    /// Models and outputs.
    pub common: CommonArgs,
    /// Text, if the analysis reads rows.
    pub rows: Option<RowArgs>,
    /// File of pairs, if the analysis reads pairs.
    pub pairs: Option<PairArgs>,
    /// Sentences, if the analysis reads them.
    pub sentences: Option<SentenceArgs>,
}

/// Models and outputs of every analysis.
#[derive(Debug, Args)]
pub struct CommonArgs {
    /// Run folders, or folders of `transformers` models.
    #[arg(required = true, value_name = "RUN|MODEL")]
    pub models: Vec<PathBuf>,
    /// Steps whose checkpoints are analyzed: `1000,2000`, or `all`. Default: the newest checkpoint of each run.
    #[arg(long, value_name = "STEPS", value_delimiter = ',', value_parser = StepChoice::parse)]
    pub step: Vec<StepChoice>,
    /// Seed of all samples. Checkpoints of one command compare the same samples.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON object: a list of rows for each table.
    #[arg(long, help_heading = "Outputs")]
    pub json: bool,
    /// Write the table to this CSV file. Further tables are written next to it: `scores.csv`, `scores-NAME.csv`.
    #[arg(long, value_name = "FILE", help_heading = "Outputs")]
    pub out: Option<PathBuf>,
    /// Write the first chart to this SVG file. Further charts are written next to it: `scores.svg`, `scores-2.svg`.
    #[arg(long, value_name = "FILE", help_heading = "Outputs")]
    pub plot: Option<PathBuf>,
    /// Write tables and charts to this HTML file.
    #[arg(long, value_name = "FILE", help_heading = "Outputs")]
    pub html: Option<PathBuf>,
}

/// Step of `--step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepChoice {
    /// Every checkpoint of a run.
    All,
    /// Checkpoint after this step.
    After(u64),
}

impl StepChoice {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            _ => {
                text.parse().map(Self::After).map_err(|_| "expected `all` or step numbers such as `200,400`".to_owned())
            }
        }
    }
}

/// Text of an analysis that reads rows.
#[derive(Debug, Args)]
pub struct RowArgs {
    /// Files, folders or globs of the text: plain, JSONL or Parquet, also compressed.
    #[arg(long, required = true, num_args = 1.., value_name = "INPUT", help_heading = "Data")]
    pub text: Vec<String>,
    /// Format of the text. Default: by the file extension; of `.txt`, each line is a document.
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(AnyFormat::KINDS), help_heading = "Data")]
    pub format: Option<String>,
    /// Field of the text in JSONL and Parquet.
    #[arg(long, value_name = "NAME", default_value = "text", help_heading = "Data")]
    pub text_field: String,
    /// Most rows; a sample if the text has more.
    #[arg(long, value_name = "N", default_value = "256", value_parser = number::at_least_one, help_heading = "Data")]
    pub max_rows: usize,
    /// Tokens of a row, with its frame. Longer documents are several rows. Longer than the model allows: its maximum.
    #[arg(long, value_name = "N", default_value = "128", value_parser = row_tokens, help_heading = "Data")]
    pub row_tokens: usize,
}

fn row_tokens(text: &str) -> Result<usize, String> {
    let number = text.parse::<usize>().ok().filter(|number| (3..=1 << 20).contains(number));
    number.ok_or_else(|| "expected a whole number from 3 to 1048576".to_owned())
}

/// Pairs of an analysis.
#[derive(Debug, Args)]
pub struct PairArgs {
    /// File of pairs: TSV, CSV, JSONL or Parquet.
    #[arg(long, required = true, value_name = "FILE", help_heading = "Data")]
    pub pairs: PathBuf,
    /// Columns of the two texts, and of the score for `--min-score`: names of the header or the keys, or numbers from 0 for
    /// a file without header.
    #[arg(long, value_name = "A,B[,SCORE]", default_value = "0,1", value_delimiter = ',', help_heading = "Data")]
    pub columns: Vec<String>,
    /// Leave out pairs with a lower score.
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true, help_heading = "Data")]
    pub min_score: Option<f64>,
    /// Most pairs; a sample if the file has more.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = number::at_least_one, help_heading = "Data")]
    pub max_pairs: usize,
}

/// Sentences of an analysis.
#[derive(Debug, Args)]
pub struct SentenceArgs {
    /// Sentence. Can be repeated.
    #[arg(long, required = true, value_name = "TEXT", help_heading = "Data")]
    pub sentence: Vec<String>,
}

impl Subcommand for AnalyzeArgs {
    fn augment_subcommands(command: Command) -> Command {
        let command = command.subcommand_required(true).arg_required_else_help(true);
        AnyAnalysis::examples().iter().fold(command, |command, analysis| command.subcommand(subcommand(analysis)))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        AnyAnalysis::KINDS.iter().any(|kind| dashed(kind) == name)
    }
}

impl FromArgMatches for AnalyzeArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let missing = || clap::Error::raw(ErrorKind::MissingSubcommand, "an analysis is missing\n");
        let (name, matches) = matches.subcommand().ok_or_else(missing)?;
        let found = AnyAnalysis::examples().into_iter().find(|analysis| dashed(analysis.kind()) == name);
        let analysis = found.ok_or_else(missing)?;
        let reads = |kind| analysis.reads().contains(&kind);
        let rows = reads(DataKind::Rows).then(|| RowArgs::from_arg_matches(matches)).transpose()?;
        let pairs = reads(DataKind::Pairs).then(|| PairArgs::from_arg_matches(matches)).transpose()?;
        let sentences = reads(DataKind::Sentences).then(|| SentenceArgs::from_arg_matches(matches)).transpose()?;
        let common = CommonArgs::from_arg_matches(matches)?;
        Ok(Self { analysis: configured(&analysis, matches)?, common, rows, pairs, sentences })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns the command of an analysis. Its options are made when it is used: other commands start without them.
fn subcommand(analysis: &AnyAnalysis) -> Command {
    Command::new(dashed(analysis.kind())).about(analysis.summary()).defer(with_options)
}

fn with_options(command: Command) -> Command {
    let found = AnyAnalysis::examples().into_iter().find(|analysis| dashed(analysis.kind()) == command.get_name());
    let Some(analysis) = found else { return command };
    let mut command = CommonArgs::augment_args(command);
    for kind in analysis.reads() {
        command = match kind {
            DataKind::Rows => RowArgs::augment_args(command),
            DataKind::Pairs => PairArgs::augment_args(command),
            DataKind::Sentences => SentenceArgs::augment_args(command),
        };
    }
    // The groups of arguments have replaced the description.
    command.args(fields(&analysis).iter().map(Field::to_arg)).about(analysis.summary()).long_about(None)
}

/// Returns the name of a field or a kind on the command line.
fn dashed(name: &str) -> String {
    name.replace('_', "-")
}

/// Field of an analysis, as its schema describes it.
struct Field {
    name: String,
    schema: Value,
    default: Value,
}

/// Returns the fields of an analysis, in their order.
fn fields(analysis: &AnyAnalysis) -> Vec<Field> {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<AnyAnalysis>().to_value();
    let is_it = |member: &&Value| member["properties"]["kind"]["const"] == analysis.kind();
    let member = schema["oneOf"].as_array().and_then(|members| members.iter().find(is_it));
    let properties = member.and_then(|member| member["properties"].as_object()).into_iter().flatten();
    let defaults = serde_json::to_value(analysis).unwrap_or_default();
    let field = |(name, schema): (&String, &Value)| Field {
        name: name.clone(),
        schema: schema.clone(),
        default: defaults[name].clone(),
    };
    properties.filter(|(name, _)| *name != "kind").map(field).collect()
}

impl Field {
    /// Returns the schema of one value.
    fn item(&self) -> &Value {
        if self.is_list() { &self.schema["items"] } else { &self.schema }
    }

    fn is_list(&self) -> bool {
        self.schema["type"] == "array"
    }

    fn is_flag(&self) -> bool {
        self.schema["type"] == "boolean"
    }

    fn choices(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let item = self.item();
        let named = item["enum"].as_array().into_iter().flatten().filter_map(text);
        let documented = item["oneOf"].as_array().into_iter().flatten().filter_map(|one| text(&one["const"]));
        named.chain(documented).collect()
    }

    fn to_arg(&self) -> Arg {
        let help = self.schema["description"].as_str().unwrap_or_default();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let arg = Arg::new(self.name.clone()).long(dashed(&self.name)).help(help.trim_end_matches('.').to_owned());
        if self.is_flag() {
            return arg.action(ArgAction::SetTrue);
        }
        let choices = self.choices();
        let arg = match self.item()["type"].as_str() {
            Some("integer") => arg.value_parser(value_parser!(u64)).value_name("N"),
            Some("number") => arg.value_parser(value_parser!(f64)).value_name("NUMBER"),
            _ if !choices.is_empty() => arg.value_parser(PossibleValuesParser::new(choices)),
            _ => arg.value_parser(value_parser!(String)).value_name("TEXT"),
        };
        let default = match &self.default {
            Value::Array(items) => items.iter().map(plain).collect(),
            value => vec![plain(value)],
        };
        let arg = if default.iter().all(String::is_empty) { arg } else { arg.default_values(default) };
        if self.is_list() { arg.value_delimiter(',').action(ArgAction::Append) } else { arg.action(ArgAction::Set) }
    }

    /// Returns the value of the command line.
    fn value(&self, matches: &ArgMatches) -> Option<Value> {
        let name = self.name.as_str();
        if self.is_flag() {
            return Some(matches.get_flag(name).into());
        }
        let values: Vec<Value> = match self.item()["type"].as_str() {
            Some("integer") => matches.get_many::<u64>(name)?.map(|&value| value.into()).collect(),
            Some("number") => matches.get_many::<f64>(name)?.map(|&value| value.into()).collect(),
            _ => matches.get_many::<String>(name)?.map(|value| value.as_str().into()).collect(),
        };
        if self.is_list() { Some(values.into()) } else { values.into_iter().next() }
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the analysis with the options of the command line.
fn configured(analysis: &AnyAnalysis, matches: &ArgMatches) -> Result<AnyAnalysis, clap::Error> {
    let invalid = |problem: String| {
        let text = format!("{problem}\n\nFor more information, try '--help'.\n");
        clap::Error::raw(ErrorKind::ValueValidation, text)
    };
    let mut value = serde_json::to_value(analysis).map_err(|error| invalid(error.to_string()))?;
    for field in fields(analysis) {
        if let Some(given) = field.value(matches) {
            value[&field.name] = given;
        }
    }
    let configured: AnyAnalysis = serde_json::from_value(value).map_err(|error| invalid(error.to_string()))?;
    match configured.problems().into_iter().next() {
        Some(problem) => Err(invalid(problem)),
        None => Ok(configured),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<AnalyzeArgs, clap::Error> {
        let command = AnalyzeArgs::augment_subcommands(Command::new("analyze"));
        let words = [&["analyze"], args].concat();
        command.try_get_matches_from(words).and_then(|matches| AnalyzeArgs::from_arg_matches(&matches))
    }

    #[test]
    fn every_analysis_is_a_valid_command_with_its_defaults() {
        AnalyzeArgs::augment_subcommands(Command::new("analyze")).debug_assert();
        for analysis in AnyAnalysis::examples() {
            let name = dashed(analysis.kind());
            let mut words = vec![name.as_str(), "runs/a"];
            for kind in analysis.reads() {
                words.extend(match kind {
                    DataKind::Rows => ["--text", "a.txt"],
                    DataKind::Pairs => ["--pairs", "a.tsv"],
                    DataKind::Sentences => ["--sentence", "a b"],
                });
            }
            let parsed = parse(&words).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(parsed.analysis, analysis, "{name}: the defaults of the command line are those of the struct");
        }
    }

    #[test]
    fn options_are_the_fields_of_the_struct() {
        let words = ["context-score", "runs/a", "--text", "a.txt", "--measure", "cos,l10", "--minus-embedding"];
        let parsed = parse(&[&words[..], &["--max-tokens", "7", "--step", "100,all"]].concat()).expect("valid");
        let value = serde_json::to_value(&parsed.analysis).expect("plain data");
        assert_eq!((&value["measure"], &value["max_tokens"]), (&serde_json::json!(["cos", "l10"]), &7.into()));
        assert_eq!(value["minus_embedding"], true);
        assert_eq!(parsed.common.step, [StepChoice::After(100), StepChoice::All]);
        for (wrong, word) in [
            (&["--measure", "sine"][..], "sine"),
            (&["--max-tokens", "0"], "max_tokens"),
            (&["--step", "some"], "all"),
            (&["--pairs", "a.tsv"], "--pairs"),
        ] {
            let error = parse(&[&words[..4], wrong].concat()).expect_err("invalid").to_string();
            assert!(error.contains(word), "{wrong:?}: {error}");
        }
    }
}

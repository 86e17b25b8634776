//! Model card of an export: `README.md` with the use, the training and the scores of a model.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use cloze::finetune::TaskRecord;
use cloze::plan::Plan;
use schemas::{Step, markdown_code, markdown_text};
use telemetry::quantities::{count, short};
use trainer_plan::checkpoint::{self, State};
use trainer_plan::hf::ExportChoice;

use super::usage;

/// Content of a model card.
pub(super) struct ModelCard<'a> {
    pub(super) plan: &'a Plan,
    /// Folder of the run.
    pub(super) run: &'a Path,
    pub(super) step: Step,
    pub(super) state: &'a State,
    /// Class and network of the model.
    pub(super) choice: &'a ExportChoice,
}

/// Sections of the configuration that describe a machine or contain secrets. They are not published.
const UNPUBLISHED: [&str; 3] = ["run", "serve", "alerts"];

/// Beginning of the last line of a card: the BLAKE3 of the lines above, which detects edits.
const SEAL: &str = "<!-- written by cloze export; BLAKE3 of the text above: ";
const SEAL_END: &str = " -->\n";

/// Whether a file is a card as an export has written it.
pub(super) fn is_unchanged(card: &[u8]) -> bool {
    let Ok(card) = str::from_utf8(card) else { return false };
    let Some((text, seal)) = card.rsplit_once(SEAL) else { return false };
    seal.strip_suffix(SEAL_END) == Some(blake3::hash(text.as_bytes()).to_hex().as_str())
}

impl ModelCard<'_> {
    /// Returns the text, in the format of the Hugging Face Hub: metadata in YAML, then Markdown.
    pub(super) fn text(&self) -> Result<String, trainer_plan::Error> {
        let class = self.choice.class;
        let task = if class.ends_with("ForMaskedLM") { "pipeline_tag: fill-mask\n" } else { "" };
        let name = self.run.file_name().map_or("model".into(), |name| name.to_string_lossy().into_owned());
        let record = TaskRecord::find(&self.plan.data().store).ok().flatten();
        let origin = match &record {
            Some(record) => {
                let output = markdown_text(&record.task.output().to_string());
                format!("fine-tuned on `{}`: it predicts {output}", record.task.kind())
            }
            None => "pretrained".to_owned(),
        };
        let mut text = format!(
            "---\nlibrary_name: transformers\n{task}tags:\n- cloze\n---\n\n# {}\n\n\
             `{class}` that `cloze {}` {origin}, network {} after step {}.\n\n",
            markdown_text(&name),
            env!("CARGO_PKG_VERSION"),
            markdown_code(&self.choice.network),
            count(self.step.0),
        );
        let is_pair = record.as_ref().is_some_and(TaskRecord::has_pairs);
        text.push_str(&usage::code(self.choice, self.plan.vocab(), is_pair));
        text.push_str("\n## Training\n\n| | |\n|---|---|\n");
        let part = record.as_ref().and_then(TaskRecord::part).map(|part| ("training examples", part));
        for (label, value) in self.facts().into_iter().chain(part) {
            let _ = writeln!(text, "| {label} | {value} |");
        }
        let scores = self.scores()?;
        if !scores.is_empty() {
            text.push_str("\n## Validation\n\n| score | value |\n|---|---|\n");
            for (name, value) in scores {
                let _ = writeln!(text, "| {} | {value:.4} |", markdown_text(&name));
            }
        }
        let mut configuration = self.plan.config().resolved();
        // The examples of a task are prepared without these sections.
        let unused: &[&str] = if record.is_some() { &["tokenizer", "prepare", "expects"] } else { &[] };
        for section in UNPUBLISHED.iter().chain(unused) {
            configuration.remove(*section);
        }
        let configuration = toml::to_string(&configuration).expect("a configuration is plain values");
        let fence = fence(&configuration);
        let _ = write!(text, "\n## Configuration\n\n{fence}toml\n{configuration}{fence}\n\n");
        let seal = blake3::hash(text.as_bytes()).to_hex();
        let _ = write!(text, "{SEAL}{seal}{SEAL_END}");
        Ok(text)
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let train = self.plan.train();
        let active =
            train.active().map(|it| format!("{} {} (`{}`)", it.weight, markdown_code(it.name), it.objective.kind()));
        let (trained, frozen) = train.parameters();
        let data = self.plan.data();
        let tokenizer = &data.manifest.tokenizer;
        vec![
            ("loss", active.collect::<Vec<_>>().join(" + ")),
            ("parameters of the run", count(trained + frozen)),
            ("steps", format!("{} of {}", count(self.step.0), train.steps_expected().map_or("–".to_owned(), count))),
            ("rows a step", count(train.train.global_batch_size)),
            ("tokens a row", count(u64::from(train.width))),
            ("tokens seen", short(self.state.tokens_consumed as f64)),
            ("tokens of the training split", count(self.plan.train_tokens())),
            (
                "tokenizer",
                format!(
                    "{}, {} ids, {}",
                    tokenizer.kind,
                    count(u64::from(tokenizer.vocab_size)),
                    if tokenizer.lowercase { "lowercased" } else { "cased" }
                ),
            ),
            ("learning rate", format!("{:e}", train.optimizer.lr)),
            ("precision", train.train.precision.name().to_owned()),
        ]
    }

    /// Returns the scores of the validation of this step; empty if it was not validated.
    fn scores(&self) -> Result<BTreeMap<String, f64>, trainer_plan::Error> {
        let run = remote_store::existing_path(self.run)?;
        let listed = checkpoint::list_with_reasons(&run, &self.plan.train().checkpoints)?;
        Ok(listed.into_iter().find(|it| it.step == self.step).map_or_else(BTreeMap::new, |it| it.figures))
    }
}

/// Returns a fence that no run of backticks in a block of code closes.
fn fence(code: &str) -> String {
    let longest = code.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_ends_the_block_of_the_configuration() {
        assert_eq!(fence("a = 'b'\n"), "```");
        assert_eq!(fence("a = '\n```\n<script>'\n"), "````");
    }
}

//! Rows of prompts: the text of an example in a template with a masked label word, and demonstrations after it.
//!
//! # What
//! `[CLS] T(x, [MASK]) [SEP]`, or with demonstrations `[CLS] T(x, [MASK]) [SEP] T(x₁, w₁) [SEP] … T(x_k, w_k) [SEP]`: one
//! training example `x_c` of each class `c` with its label word `w_c`, in the order of the classes. All tokens are of
//! segment 0.
//!
//! # Definition
//! The parts of the template are tokenized one by one, each with the space before it. Templates, label words and the mask
//! are never truncated, only the texts. A demonstration has at most its share of the row: the tokens between the frame,
//! without separators, divided by the number of templates. The example has the rest. Within its limit, a text loses its end,
//! and the longer text of a pair first.
//!
//! The demonstrations of set `s` are drawn for each example and class by a hash of the seed, `s`, the class and the line of
//! the example. Training examples with the texts of the example itself are never drawn.
//!
//! # Reference
//! Gao et al. 2021, "Making Pre-trained Language Models Better Few-shot Learners", sections 4 and 6.

use std::collections::BTreeSet;

use pipeline::labelled::{LabelledRow, RowTarget};
use pipeline::tokenize::{HfTokenizer, Tokenizer as _};
use pipeline::views::truncated;
use schemas::columns::IGNORE;
use serde::{Deserialize, Serialize};
use tasks::prompt::{Prompt, PromptPart};
use tasks::{AnyTask, Example, Gold};

use super::example_row::{ExampleRow, RowLogits};
use crate::exit::Usage;

/// Prompt of a fine-tuning, as the record of its folder has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PromptOptions {
    pub(super) template: String,
    pub(super) words: Vec<String>,
    /// Sets of demonstrations; 0: none.
    pub(super) demonstrations: u32,
}

impl PromptOptions {
    /// Returns the prompt of a task.
    ///
    /// # Errors
    /// If the task has none.
    pub(crate) fn new(task: &AnyTask, demonstrations: u32) -> Result<Self, Usage> {
        let missing = || {
            let known = AnyTask::examples();
            let known: Vec<&str> = known.iter().filter(|task| task.prompt().is_some()).map(AnyTask::kind).collect();
            Usage(format!(
                "--prompt: the task `{}` has no prompt; {} have one, and a task of the kind `custom_classification` with the \
                 keys `template` and `words`",
                task.kind(),
                known.join(", ")
            ))
        };
        let Prompt { template, words } = task.prompt().ok_or_else(missing)?;
        Ok(Self { template, words, demonstrations })
    }

    /// Returns the id of the label word of each class.
    ///
    /// # Errors
    /// If a label word is not one token, or not another one than those of other classes.
    pub(super) fn word_ids(&self, tokenizer: &HfTokenizer) -> anyhow::Result<Vec<u32>> {
        let is_spaced = self.parts()?.iter().any(|part| matches!(part, PromptPart::Blank { is_spaced: true }));
        word_ids(&self.words, is_spaced, tokenizer)
    }

    fn parts(&self) -> Result<Vec<PromptPart>, Usage> {
        let prompt = Prompt { template: self.template.clone(), words: self.words.clone() };
        prompt.parts().map_err(|problem| Usage(format!("--prompt: {problem}")))
    }

    /// Returns the number of rows of a training example.
    pub(super) fn rows(&self) -> u64 {
        u64::from(self.demonstrations.max(1))
    }
}

/// Converts examples to prompts.
#[derive(Clone, Debug)]
pub struct PromptEncoder {
    parts: Vec<EncodedPart>,
    /// Id of the label word of each class.
    words: Vec<u32>,
    mask: u32,
    sep: u32,
    /// Tokens between the frame.
    content: usize,
    /// Training examples by class; empty without demonstrations.
    pool: Vec<Vec<Demonstration>>,
    sets: u32,
    seed: u64,
}

#[derive(Clone, Debug)]
enum EncodedPart {
    Tokens(Vec<u32>),
    First { is_spaced: bool },
    Second { is_spaced: bool },
    Blank,
}

/// Tokens of the texts of an example.
#[derive(Clone, Debug)]
struct TextTokens {
    first: Vec<u32>,
    second: Vec<u32>,
}

/// Training example that can be a demonstration.
#[derive(Clone, Debug)]
struct Demonstration {
    first: String,
    second: Option<String>,
    tokens: TextTokens,
}

/// Template with its texts.
struct Filled {
    ids: Vec<u32>,
    /// Place of the label word.
    word: usize,
}

impl PromptEncoder {
    /// Tokenizes the template, the label words and the demonstrations, which are drawn from `train`.
    ///
    /// # Errors
    /// If a label word is not one token, if the template does not fit into a row, or if a class has no two examples with
    /// different texts.
    pub(super) fn new(
        options: &PromptOptions,
        tokenizer: &HfTokenizer,
        max_seq_len: u32,
        train: &[Example],
        seed: u64,
    ) -> anyhow::Result<Self> {
        let encode = |part: &PromptPart| -> anyhow::Result<EncodedPart> {
            Ok(match part {
                PromptPart::Text(text) => EncodedPart::Tokens(tokenizer.ids(text)?),
                PromptPart::First { is_spaced } => EncodedPart::First { is_spaced: *is_spaced },
                PromptPart::Second { is_spaced } => EncodedPart::Second { is_spaced: *is_spaced },
                PromptPart::Blank { .. } => EncodedPart::Blank,
            })
        };
        let special = tokenizer.facts().special();
        let mut encoder = Self {
            parts: options.parts()?.iter().map(encode).collect::<Result<_, _>>()?,
            words: options.word_ids(tokenizer)?,
            mask: special.mask,
            sep: special.sep,
            content: max_seq_len.saturating_sub(2) as usize,
            pool: Vec::new(),
            sets: options.demonstrations,
            seed,
        };
        encoder.check_width(max_seq_len)?;
        if options.demonstrations > 0 {
            encoder.pool = encoder.demonstrations(options, tokenizer, train)?;
        }
        Ok(encoder)
    }

    /// Returns the rows of an example: one for each set of demonstrations, or one without.
    ///
    /// # Errors
    /// If the tokenizer cannot split a text.
    pub(super) fn rows(&self, example: &Example, tokenizer: &HfTokenizer) -> anyhow::Result<Vec<ExampleRow>> {
        let tokens = self.tokens(example, tokenizer)?;
        Ok((0..self.sets.max(1)).map(|set| self.row(example, &tokens, set)).collect())
    }

    fn row(&self, example: &Example, tokens: &TextTokens, set: u32) -> ExampleRow {
        let mut solved = Vec::new();
        for (class, pool) in self.pool.iter().enumerate() {
            let chosen = self.draw(example, pool, set, class);
            solved.push(self.sep);
            solved.extend(self.fill(&chosen.tokens, self.words[class], self.share()).ids);
        }
        let Filled { mut ids, word } = self.fill(tokens, self.mask, self.content - solved.len());
        ids.extend(solved);
        let target = match example.gold {
            Gold::Class(class) => {
                let mut cells = vec![IGNORE; ids.len()];
                cells[word] = i32::try_from(class).expect("a task has fewer than 2^31 classes");
                RowTarget::Tokens(cells)
            }
            _ => RowTarget::None,
        };
        let row = LabelledRow { id: example.id.clone(), first: ids, target, ..LabelledRow::default() };
        // `[CLS]` is before the template.
        ExampleRow { row, logits: RowLogits::Blank(word + 1) }
    }

    /// Draws a training example of a class that has other texts than the example.
    fn draw<'a>(&self, example: &Example, pool: &'a [Demonstration], set: u32, class: usize) -> &'a Demonstration {
        let is_other = |it: &&Demonstration| (&it.first, &it.second) != (&example.first, &example.second);
        let others: Vec<&Demonstration> = pool.iter().filter(is_other).collect();
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"demonstration").update(&self.seed.to_le_bytes()).update(&set.to_le_bytes());
        hasher.update(&(class as u64).to_le_bytes()).update(&example.line.to_le_bytes());
        let mut random = [0; 8];
        hasher.finalize_xof().fill(&mut random);
        let count = others.len() as u64;
        others[usize::try_from(u64::from_le_bytes(random) % count).expect("below the number of examples")]
    }

    /// Fills the template. The texts are truncated, so that it has at most `room` tokens.
    fn fill(&self, tokens: &TextTokens, word: u32, room: usize) -> Filled {
        let TextTokens { first, second } = tokens;
        let (a, b) = truncated(first.len(), second.len(), room - self.fixed());
        let mut filled = Filled { ids: Vec::new(), word: 0 };
        for part in &self.parts {
            match part {
                EncodedPart::Tokens(ids) => filled.ids.extend(ids),
                EncodedPart::First { .. } => filled.ids.extend(&first[..a]),
                EncodedPart::Second { .. } => filled.ids.extend(&second[..b]),
                EncodedPart::Blank => {
                    filled.word = filled.ids.len();
                    filled.ids.push(word);
                }
            }
        }
        filled
    }

    /// Returns the tokens of the template without texts.
    fn fixed(&self) -> usize {
        let length = |part: &EncodedPart| match part {
            EncodedPart::Tokens(ids) => ids.len(),
            EncodedPart::Blank => 1,
            EncodedPart::First { .. } | EncodedPart::Second { .. } => 0,
        };
        self.parts.iter().map(length).sum()
    }

    /// Returns the number of templates in a row.
    fn templates(&self) -> usize {
        if self.sets > 0 { 1 + self.words.len() } else { 1 }
    }

    /// Returns the most tokens of a demonstration.
    fn share(&self) -> usize {
        (self.content + 1 - self.templates()) / self.templates()
    }

    /// Checks that each template has room for a token of each of its texts.
    fn check_width(&self, max_seq_len: u32) -> Result<(), Usage> {
        let is_text = |part: &&EncodedPart| matches!(part, EncodedPart::First { .. } | EncodedPart::Second { .. });
        let templates = self.templates();
        let each = self.fixed() + self.parts.iter().filter(is_text).count();
        let needed = templates * (each + 1) + 1;
        if max_seq_len as usize >= needed {
            return Ok(());
        }
        Err(Usage(format!(
            "--prompt: rows of {max_seq_len} tokens have no room for {templates} templates of {each} tokens and more; set \
             --max-seq-len to {needed} or more, up to the positions of the model"
        )))
    }

    fn tokens(&self, example: &Example, tokenizer: &HfTokenizer) -> anyhow::Result<TextTokens> {
        let mut tokens = TextTokens { first: Vec::new(), second: Vec::new() };
        let ids = |text: &str, is_spaced: bool| tokenizer.ids(&format!("{}{text}", if is_spaced { " " } else { "" }));
        for part in &self.parts {
            match part {
                EncodedPart::First { is_spaced } => tokens.first = ids(&example.first, *is_spaced)?,
                EncodedPart::Second { is_spaced } => {
                    tokens.second = ids(example.second.as_deref().unwrap_or_default(), *is_spaced)?;
                }
                EncodedPart::Tokens(_) | EncodedPart::Blank => {}
            }
        }
        Ok(tokens)
    }

    fn demonstrations(
        &self,
        options: &PromptOptions,
        tokenizer: &HfTokenizer,
        train: &[Example],
    ) -> anyhow::Result<Vec<Vec<Demonstration>>> {
        let mut pool: Vec<Vec<Demonstration>> = vec![Vec::new(); self.words.len()];
        for example in train {
            let Gold::Class(class) = example.gold else { continue };
            let Example { first, second, .. } = example.clone();
            pool[class as usize].push(Demonstration { first, second, tokens: self.tokens(example, tokenizer)? });
        }
        for (demonstrations, word) in pool.iter().zip(&options.words) {
            let texts: BTreeSet<_> = demonstrations.iter().map(|it| (&it.first, &it.second)).collect();
            if texts.len() < 2 {
                let message = format!(
                    "--demonstrations {}: the class of the label word `{word}` needs two training examples with different \
                     texts, so that an example is not shown its own label; increase --shots",
                    self.sets
                );
                return Err(Usage(message).into());
            }
        }
        Ok(pool)
    }
}

/// Returns the id of each label word.
fn word_ids(words: &[String], is_spaced: bool, tokenizer: &HfTokenizer) -> anyhow::Result<Vec<u32>> {
    let special = tokenizer.facts().special();
    let refuse = |word: &str, problem: &str| {
        Usage(format!(
            "--prompt: the label word `{word}` {problem}; choose another one with the key `words` of a task of the kind \
             `custom_classification`"
        ))
    };
    let mut found: Vec<u32> = Vec::new();
    for word in words {
        let ids = tokenizer.ids(&format!("{}{word}", if is_spaced { " " } else { "" }))?;
        let [id] = ids[..] else {
            return Err(refuse(word, &format!("is {} tokens of this vocabulary, and must be one", ids.len())).into());
        };
        if special.iter().any(|special| special == id) {
            return Err(refuse(word, "is not in this vocabulary").into());
        }
        if let Some(at) = found.iter().position(|&other| other == id) {
            return Err(refuse(word, &format!("is the same token as `{}`", words[at])).into());
        }
        found.push(id);
    }
    Ok(found)
}

#[cfg(test)]
mod tests;

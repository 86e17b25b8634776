//! The file that is written, and the numbers in it.

use std::fmt::Write as _;

use telemetry::quantities::bytes;

use super::survey::Survey;

/// Bytes of text that make a token, about, of a vocabulary that suits the corpus.
const BYTES_PER_TOKEN: u64 = 4;

/// How large everything is, for a corpus of so many tokens.
struct RunSize {
    /// Corpora below this, in tokens.
    below: u64,
    ids: u32,
    valid_fraction: &'static str,
    max_seq_len: u64,
    layers: u32,
    hidden: u32,
    heads: u32,
    global_batch_size: u64,
    lr: &'static str,
    epochs: u64,
    like: &'static str,
}

const SIZES: [RunSize; 4] = [
    RunSize {
        below: 2_000_000,
        ids: 4096,
        valid_fraction: "0.05",
        max_seq_len: 128,
        layers: 2,
        hidden: 128,
        heads: 2,
        global_batch_size: 64,
        lr: "1e-3",
        epochs: 40,
        like: "minutes on a laptop",
    },
    RunSize {
        below: 50_000_000,
        ids: 8192,
        valid_fraction: "0.02",
        max_seq_len: 128,
        layers: 4,
        hidden: 256,
        heads: 4,
        global_batch_size: 128,
        lr: "1e-3",
        epochs: 20,
        like: "hours on a laptop",
    },
    RunSize {
        below: 2_000_000_000,
        ids: 30_522,
        valid_fraction: "0.005",
        max_seq_len: 128,
        layers: 12,
        hidden: 256,
        heads: 4,
        global_batch_size: 128,
        lr: "5e-4",
        epochs: 10,
        like: "ELECTRA-small's encoder: a GPU",
    },
    RunSize {
        below: u64::MAX,
        ids: 30_522,
        valid_fraction: "0.001",
        max_seq_len: 512,
        layers: 12,
        hidden: 768,
        heads: 12,
        global_batch_size: 256,
        lr: "1e-4",
        epochs: 3,
        like: "BERT-base: days on a GPU",
    },
];

/// The configuration, commented.
pub(super) fn page(survey: &Survey, name: &str) -> String {
    let tokens = (survey.text_bytes / BYTES_PER_TOKEN).max(1);
    let size = SIZES.iter().find(|size| tokens < size.below).unwrap_or(&SIZES[SIZES.len() - 1]);
    let rows = (tokens / size.max_seq_len).max(1);
    // A small corpus has at least eight steps an epoch.
    let global_batch_size = (rows / 8).max(1).next_power_of_two().min(size.global_batch_size);
    let steps = round((rows * size.epochs / global_batch_size).clamp(20, 1_000_000));
    let RunSize { ids, valid_fraction, max_seq_len, layers, hidden, heads, lr, epochs, like, .. } = size;
    let (feed_forward, warmup, micro) = (4 * hidden, (steps / 20).max(1), global_batch_size.min(64));
    let (every, report) = ((steps / 10).max(1), (steps / 100).max(1));
    let (kind, lowercase) = if survey.is_latin {
        ("wordpiece", "lowercase = true          # and accents go; `false` for a cased model")
    } else {
        ("byte_bpe", "# Text that is mostly not in Latin letters: bytes know every script.")
    };
    let inputs: Vec<String> = survey.inputs.iter().map(|input| toml::Value::from(input.as_str()).to_string()).collect();
    let mut fields = String::new();
    if let Some(text) = &survey.text_field {
        let text = toml::Value::from(text.as_str());
        let _ = writeln!(fields, "text_field = {text}       # the field that holds the text");
    }
    if let Some(id) = &survey.id_field {
        let id = toml::Value::from(id.as_str());
        let _ = writeln!(fields, "id_field = {id}           # its document's name, for `cloze prepare forget`");
    }
    format!(
        r#"# {files} of format `{format}`, {disk} on disk, about {text} of text: some {millions:.1} M tokens.
# Written by `cloze init`; the sizes are for {like}. `cloze config` lists every key, `cloze plan -c` says what this costs.
seed = 1

[tokenizer]               # `cloze tokenizer train`
kind = "{kind}"
vocab_size = {ids}
{lowercase}

[prepare]                 # `cloze prepare`
inputs = [{inputs}]
format = "{format}"
{fields}tokenizer = "data/{name}-tokenizer.json"
folder = "data/{name}"    # `data.folder` follows it
max_seq_len = {max_seq_len}          # rows of so many tokens; longer ones cost more and see further
valid_fraction = {valid_fraction}     # of the documents: never trained on, to validate on

[encoder]
layers = {layers}
hidden = {hidden}
heads = {heads}
feed_forward = {feed_forward}
max_positions = {max_seq_len}

[views.masked]            # 15 % of the tokens, 80/10/10, drawn anew every epoch
kind = "mask"

[objectives.mlm]
kind = "masked_lm"
view = "masked"

[loss]                    # L = mlm
mlm = 1.0

[train]
steps = {steps}            # about {epochs} passes over the corpus
global_batch_size = {global_batch_size}
micro_batch_size = {micro}  # as many as the device has memory for
# precision = "bf16"      # on a GPU: six times as fast

[optimizer]
lr = {lr}

[schedule]
kind = "linear"
warmup_steps = {warmup}

[validation]
every_steps = {every}

[checkpoints]
every_steps = {every}

[report]
every_steps = {report}

[run]
folder = "runs/{name}"

# A page of the run, and metrics for Prometheus: docs/monitoring.md. `cloze top runs/{name}` is the same on a terminal.
# [serve]
# address = "127.0.0.1:8080"
#
# Who is told when it ends or leaps: docs/operations.md.
# [alerts]
# command = ["./tell", "the-team"]
"#,
        files = survey.files(),
        format = survey.format,
        disk = bytes(survey.bytes),
        text = bytes(survey.text_bytes),
        millions = tokens as f64 / 1e6,
        inputs = inputs.join(", "),
    )
}

/// To two figures: nobody means 13,847 steps.
fn round(steps: u64) -> u64 {
    let unit = 10_u64.pow(steps.max(1).ilog10().saturating_sub(1));
    steps.div_ceil(unit) * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_of_corpus_gives_a_run_without_a_doubt() {
        for text_bytes in [0, 100, 10_000, 1_300_000, 60_000_000, 4_000_000_000, 500_000_000_000] {
            let survey = Survey {
                inputs: vec!["a \"b\"/*.jsonl".to_owned()],
                format: "jsonl".to_owned(),
                text_field: Some("text".to_owned()),
                id_field: None,
                passed_over: None,
                files: 3,
                bytes: text_bytes,
                text_bytes,
                is_latin: text_bytes != 100,
            };
            let table: toml::Table = page(&survey, "run").parse().unwrap_or_else(|error| panic!("{error}"));
            let number = |section: &str, key: &str| table[section][key].as_integer().expect("a number");
            assert_eq!(table["prepare"]["inputs"][0].as_str(), Some("a \"b\"/*.jsonl"));
            assert!(number("train", "global_batch_size") % number("train", "micro_batch_size") == 0);
            assert!(number("schedule", "warmup_steps") < number("train", "steps"));
            assert_eq!(number("encoder", "hidden") % number("encoder", "heads"), 0);
        }
        assert_eq!([19, 20, 101, 13_847].map(round), [19, 20, 110, 14_000]);
    }
}

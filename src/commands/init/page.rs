//! Text of the written file, and its numbers.

use std::fmt::Write as _;

use telemetry::quantities::bytes;

use super::survey::Survey;

/// Approximate bytes of text per token, for a vocabulary trained on the corpus.
const BYTES_PER_TOKEN: u64 = 4;

/// Model and schedule for a corpus of up to `below` tokens.
struct RunSize {
    /// Upper limit of the corpus, in tokens.
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

/// Returns the configuration with comments.
pub(super) fn page(survey: &Survey, name: &str) -> String {
    let tokens = (survey.text_bytes / BYTES_PER_TOKEN).max(1);
    let size = SIZES.iter().find(|size| tokens < size.below).unwrap_or(&SIZES[SIZES.len() - 1]);
    let rows = (tokens / size.max_seq_len).max(1);
    // At least eight steps per epoch for a small corpus.
    let global_batch_size = (rows / 8).max(1).next_power_of_two().min(size.global_batch_size);
    let steps = round((rows * size.epochs / global_batch_size).clamp(20, 1_000_000));
    let RunSize { ids, valid_fraction, max_seq_len, layers, hidden, heads, lr, epochs, like, .. } = size;
    let (feed_forward, warmup, micro) = (4 * hidden, (steps / 20).max(1), global_batch_size.min(64));
    let (every, report) = ((steps / 10).max(1), (steps / 100).max(1));
    let (kind, lowercase) = if survey.is_latin {
        ("wordpiece", "lowercase = true          # strips accents too; `false` for a cased model")
    } else {
        ("byte_bpe", "# Most letters are not Latin: byte-level BPE covers every script.")
    };
    let inputs: Vec<String> = survey.inputs.iter().map(|input| toml::Value::from(input.as_str()).to_string()).collect();
    let mut fields = String::new();
    if let Some(text) = &survey.text_field {
        let text = toml::Value::from(text.as_str());
        let _ = writeln!(fields, "text_field = {text}       # field with the text");
    }
    if let Some(id) = &survey.id_field {
        let id = toml::Value::from(id.as_str());
        let _ = writeln!(fields, "id_field = {id}           # field with the document id, for `cloze prepare forget`");
    }
    format!(
        r#"# {files} of format `{format}`, {disk} on disk, about {text} of text: some {millions:.1} M tokens.
# Written by `cloze init`; the sizes are for {like}. `cloze config` lists every key, `cloze plan -c` prints the cost.
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
max_seq_len = {max_seq_len}          # tokens per row; longer rows cost more and give more context
valid_fraction = {valid_fraction}     # share of the documents for validation, never trained on

[encoder]
layers = {layers}
hidden = {hidden}
heads = {heads}
feed_forward = {feed_forward}
max_positions = {max_seq_len}

[views.masked]            # 15 % of the tokens, 80/10/10, drawn again in every epoch
kind = "mask"

[objectives.mlm]
kind = "masked_lm"
view = "masked"

[loss]                    # L = mlm
mlm = 1.0

[train]
steps = {steps}            # about {epochs} passes over the corpus
global_batch_size = {global_batch_size}
micro_batch_size = {micro}  # limited by device memory
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
# Alerts when the run ends or the loss spikes: docs/operations.md.
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

/// Rounds to two significant digits.
fn round(steps: u64) -> u64 {
    let unit = 10_u64.pow(steps.max(1).ilog10().saturating_sub(1));
    steps.div_ceil(unit) * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_corpus_size_gives_a_valid_run() {
        for text_bytes in [0, 100, 10_000, 1_300_000, 60_000_000, 4_000_000_000, 500_000_000_000] {
            let survey = Survey {
                inputs: vec!["a \"b\"/*.jsonl".to_owned()],
                format: "jsonl".to_owned(),
                text_field: Some("text".to_owned()),
                id_field: None,
                skipped_files: None,
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

//! Description of the work of `cloze prepare`, as part of a plan.

use pipeline::prepare::{self, DuplicatesCost, Preparation, PrepareConfig, PrepareMemory, PreparePlan};
use schemas::Problem;
use telemetry::quantities::{bytes, count, counted};

use crate::config::corpus;

/// Returns lines about the preparation, or about the reason why it cannot be planned. Files of a prepared corpus are
/// not scanned, because touched files would be read again. Text that cannot be used is also returned in `unusable`.
pub(super) fn lines(config: &PrepareConfig, is_prepared: bool, unusable: &mut Option<pipeline::Error>) -> Vec<String> {
    let missing = config.missing();
    if is_prepared && missing.is_empty() {
        let folder = config.folder.display();
        return vec![match prepare::fits(config) {
            Ok(()) => format!("prepare    {folder}: done; run `cloze prepare` to add later changes of the corpus"),
            Err(error) => format!("prepare    {folder}: done; `cloze prepare` would fail: {error}"),
        }];
    }
    if is_prepared {
        return Vec::new();
    }
    if !missing.is_empty() {
        let keys: Vec<String> = missing.iter().map(|Problem { key, .. }| format!("`{key}`")).collect();
        return vec![format!("prepare    no corpus is configured: `cloze prepare` needs {}", keys.join(", "))];
    }
    let inputs = config.inputs.join(", ");
    let folder = config.folder.display();
    if !corpus::is_there(&config.inputs) {
        return vec![format!(
            "prepare    {inputs} → {folder}: the corpus does not exist; paths are relative to the folder that \
             `cloze` is started in; files, parts and times are unknown"
        )];
    }
    if !config.tokenizer.exists() {
        let tokenizer = config.tokenizer.display();
        let first = format!("{tokenizer} does not exist: `cloze tokenizer train` creates it from the corpus");
        return vec![format!("prepare    {inputs} → {folder}: {first}")];
    }
    match Preparation::plan(config) {
        Ok(preparation) => of_plan(config, &preparation.describe()),
        Err(error) => {
            let line = format!("prepare    {inputs} → {folder}: `cloze prepare` would fail: {error}");
            if matches!(error, pipeline::Error::UnusableFile { .. } | pipeline::Error::UnusableCorpus(_)) {
                unusable.get_or_insert(error);
            }
            vec![line]
        }
    }
}

fn of_plan(config: &PrepareConfig, plan: &PreparePlan) -> Vec<String> {
    let mut lines = vec![
        format!(
            "prepare    {}, {} → {}: {}, the largest of {}, by {}",
            counted(plan.files as u64, &format!("{} file", config.format.kind())),
            bytes(plan.bytes),
            config.folder.display(),
            counted(plan.parts as u64, "part"),
            bytes(plan.largest_part_bytes),
            counted(plan.workers as u64, "worker"),
        ),
        format!(
            "           rows of {} packed as `{}`, {:.1} % to validate on; {} {} ids, {}; documents up to {}, {} of text at once",
            config.max_seq_len,
            config.packing.kind(),
            100.0 * config.valid_fraction,
            plan.tokenizer.kind,
            count(u64::from(plan.tokenizer.vocab_size)),
            if plan.tokenizer.lowercase { "lowercased" } else { "cased" },
            bytes(plan.max_document_bytes),
            bytes(plan.text_bytes_max),
        ),
    ];
    lines.push(format!("           text to ids: {}", plan.tokenized_by));
    let PrepareMemory { text, worker } = plan.memory;
    lines.push(format!(
        "           memory: {} for short texts and files, {} for longer files, {} for eight long documents, {} for a very long one; \
         next to it {} a worker for rows, the table of documents and words",
        bytes(text.short),
        bytes(text.files),
        bytes(text.long),
        bytes(text.very_long),
        bytes(worker),
    ));
    lines.extend(plan.duplicates.map(|cost| format!("           {}", duplicates(cost))));
    if let Some(runs) = plan.test_runs {
        lines.push(format!("           decontamination: {} of test sets", counted(runs, "run")));
    }
    if let Some((name, size)) = &plan.largest_compressed {
        lines.push(format!("           one worker reads {name} from end to end, {} compressed", bytes(*size)));
    }
    lines.extend(plan.change.map(|change| format!("           {change}")));
    lines
}

/// Describes the comparison of all documents before the parts.
pub(crate) fn duplicates(cost: DuplicatesCost) -> String {
    let passes = match cost.fold.passes {
        1 => String::new(),
        passes => format!(", each column read {passes} times"),
    };
    format!(
        "duplicates: about {} of 2 kB are compared: {} of memory{passes}, {} a worker for signatures, \
         {} on disk",
        counted(cost.documents, "document"),
        bytes(cost.fold.bytes()),
        bytes(cost.worker_bytes),
        bytes(cost.disk_bytes),
    )
}

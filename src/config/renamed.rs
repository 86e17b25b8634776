//! Names of version 0.1 that have another name since version 0.2, for the hint of a refused configuration.

/// Keys by section: `(section, old key, new key)`. `*` stands for the name of a component.
const KEYS: &[(&str, &str, &str)] = &[
    ("prepare", "unfit_files", "on_invalid_file"),
    ("prepare", "tokenize_by", "tokenizer_backend"),
    ("prepare", "tokens_max", "max_seq_len"),
    ("prepare", "pack", "packing"),
    ("prepare", "memory_max", "max_memory_bytes"),
    ("prepare", "bad_lines_max", "max_bad_lines"),
    ("prepare", "document_bytes_max", "max_document_bytes"),
    ("prepare", "lanes", "workers"),
    ("data", "width", "seq_len"),
    ("data", "copies", "copies_per_sample"),
    ("data", "generations", "version"),
    ("data", "shuffle_blocks", "shuffle_window_groups"),
    ("data", "depth", "prefetch_batches"),
    ("data", "memory_max", "max_memory_bytes"),
    ("data", "bad_rows_max", "max_bad_rows"),
    ("data", "lanes", "workers"),
    ("views.*", "frac", "keep_fraction"),
    ("views.*", "words", "random_words"),
    ("views.*", "specials", "mask_special_tokens"),
    ("views.*", "cls", "mask_cls"),
    ("views.*", "offset_max", "max_offset"),
    ("views.*", "base", "rate_base"),
    ("views.*", "replace", "replacement"),
    ("encoder", "positions", "max_positions"),
    ("encoder", "attend", "attention_scope"),
    ("encoder.relative_positions", "form", "kind"),
    ("encoder.relative_positions", "buckets", "num_buckets"),
    ("encoder.relative_positions", "distance_max", "max_distance"),
    ("networks.*", "fills", "input_view"),
    ("networks.*", "makes", "output_view"),
    ("networks.*", "draw", "sampling_method"),
    ("networks.*", "ban_specials", "exclude_special_tokens"),
    ("networks.*", "init", "init_from"),
    ("objectives.*", "weigh", "reduction"),
    ("objectives.*", "pool", "reduction"),
    ("objectives.*", "norm", "reduction"),
    ("objectives.*", "per_sequence", "reduction"),
    ("objectives.*", "e", "subtracted_embedding"),
    ("objectives.*", "neg_cols", "negative_columns"),
    ("objectives.*", "offset_max", "max_offset"),
    ("objectives.*", "avoid_same_doc", "exclude_same_document"),
    ("train", "rows_per_step", "global_batch_size"),
    ("train", "rows_per_micro_batch", "micro_batch_size"),
    ("train", "recompute", "activation_checkpointing"),
    ("train", "skipped_steps_max", "max_skipped_steps"),
    ("train", "hours", "max_hours"),
    ("train", "tokens", "max_tokens"),
    ("train", "init", "init_from"),
    ("optimizer", "clip_norm", "max_grad_norm"),
    ("spike_guard", "rule", "action"),
    ("spike_guard", "skips_max", "max_skips"),
    ("run", "grace_seconds", "shutdown_timeout_seconds"),
    ("run", "hang_seconds", "stall_timeout_seconds"),
    ("serve", "hosts", "allowed_hosts"),
    ("alerts", "on", "events"),
    ("alerts", "every_seconds", "min_interval_seconds"),
    ("alerts", "disk_free_min", "min_free_disk_bytes"),
];

/// Choices: `(key, old choice, new choice)`.
const CHOICES: &[(&str, &str, &str)] = &[
    ("on_invalid_file", "refuse", "error"),
    ("tokenizer_backend", "fastest", "fast"),
    ("tokenizer_backend", "crate", "reference"),
    ("version", "first", "pinned"),
    ("version", "newest", "latest"),
    ("reduction", "rows", "sequences"),
    ("events", "leap", "loss_spike"),
];

/// Sections: `(old name, new name)`.
const SECTIONS: &[(&str, &str)] = &[("guard", "spike_guard")];

/// Returns the present name of the key at a dotted path, if that was its name in version 0.1.
pub(super) fn key(path: &str) -> Option<&'static str> {
    let (section, old) = path.rsplit_once('.')?;
    let is_in = |pattern: &str| match pattern.strip_suffix(".*") {
        Some(family) => section.split_once('.').is_some_and(|(first, _)| first == family),
        None => section == pattern,
    };
    KEYS.iter().find(|(pattern, key, _)| *key == old && is_in(pattern)).map(|(_, _, new)| *new)
}

/// Returns the present name of a choice of the key at a dotted path. An element of a list has its index in the path.
pub(super) fn choice(path: &str, old: &str) -> Option<&'static str> {
    let mut parts = path.split(['.', '[']).rev();
    let key = parts.find(|part| !part.trim_end_matches(']').chars().all(|it| it.is_ascii_digit()))?;
    CHOICES.iter().find(|(of, choice, _)| *of == key && *choice == old).map(|(_, _, new)| *new)
}

/// Returns the present name of a section.
pub(super) fn section(old: &str) -> Option<&'static str> {
    SECTIONS.iter().find(|(name, _)| *name == old).map(|(_, new)| *new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_are_found_in_their_section_alone() {
        assert_eq!(key("views.masked.frac"), Some("keep_fraction"));
        assert_eq!(key("encoder.relative_positions.form"), Some("kind"));
        assert_eq!(key("train.rows_per_step"), Some("global_batch_size"));
        assert_eq!(key("validation.tokens"), None);
        assert_eq!(choice("data.version", "newest"), Some("latest"));
        assert_eq!(choice("alerts.events[0]", "leap"), Some("loss_spike"));
        assert_eq!(section("guard"), Some("spike_guard"));
    }
}

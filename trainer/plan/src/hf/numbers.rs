//! Name of the configuration file of a model, and limits of its numbers.

/// Name of the configuration file of a model.
pub const CONFIG: &str = "config.json";

/// Returns the problem of a number that no model has, with its key.
///
/// The limits are far above those of published models, and keep every product of two sizes within 64 bits.
pub(super) fn number_problem(keys: &serde_json::Value) -> Option<String> {
    const COUNTS: [(&str, u64, u64); 11] = [
        ("vocab_size", 1, 1 << 24),
        ("embedding_size", 1, 1 << 16),
        ("hidden_size", 1, 1 << 16),
        ("num_hidden_layers", 1, 1 << 10),
        ("num_attention_heads", 1, 1 << 12),
        ("intermediate_size", 1, 1 << 18),
        ("max_position_embeddings", 1, 1 << 20),
        ("type_vocab_size", 0, 1 << 16),
        ("pad_token_id", 0, 1 << 24),
        ("relative_attention_num_buckets", 4, 1 << 15),
        ("relative_attention_max_distance", 1, 1 << 15),
    ];
    const FRACTIONS: [(&str, f64, f64); 4] = [
        ("hidden_dropout_prob", 0.0, 1.0),
        ("attention_probs_dropout_prob", 0.0, 1.0),
        ("layer_norm_eps", 0.0, 1.0),
        ("initializer_range", 0.0, 1e6),
    ];
    let number = |key: &str| keys.get(key).filter(|value| value.is_number());
    let count = COUNTS.into_iter().find_map(|(key, min, max)| {
        let value = number(key)?;
        let is_possible = value.as_u64().is_some_and(|value| (min..=max).contains(&value));
        (!is_possible)
            .then(|| format!("`{CONFIG}`: `{key}` = {value} is impossible; it is a whole number from {min} to {max}"))
    });
    count.or_else(|| {
        FRACTIONS.into_iter().find_map(|(key, min, max)| {
            let value = number(key)?;
            let is_possible = value.as_f64().is_some_and(|value| (min..max).contains(&value));
            (!is_possible)
                .then(|| format!("`{CONFIG}`: `{key}` = {value} is impossible; it is at least {min} and below {max}"))
        })
    })
}

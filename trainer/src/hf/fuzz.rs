//! `config.json` of a model, as others write it.

use super::config::ModelConfig;

const BERT: &str = r#"{"architectures":["BertForMaskedLM"],"model_type":"bert","vocab_size":30522,"hidden_size":128,
    "num_hidden_layers":2,"num_attention_heads":2,"intermediate_size":512,"max_position_embeddings":512,
    "type_vocab_size":2,"layer_norm_eps":1e-12,"pad_token_id":0}"#;

#[test]
fn a_model_config_is_read_or_refused() {
    let seeds =
        ["bert", "roberta", "electra"].map(|kind| BERT.replace("\"bert\"", &format!("\"{kind}\"")).into_bytes());
    fuzz::target!("model-config", seeds.to_vec(), |bytes: &[u8]| {
        let Ok(config) = ModelConfig::parse(bytes) else { return };
        let _ = (config.first_position(), config.token_types(), config.class());
        let written = config.to_json();
        let again = ModelConfig::parse(&written).unwrap_or_else(|problem| panic!("{problem}"));
        assert_eq!(again.to_json(), written);
    });
}

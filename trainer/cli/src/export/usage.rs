//! Python code of a model card: from a text to a prediction.

use schemas::Vocab;
use trainer_plan::hf::{ExportChoice, HeadRole};

/// Returns a block of code that loads a model and predicts. `is_pair`: whether its examples have two texts.
pub(super) fn code(choice: &ExportChoice, vocab: &Vocab, is_pair: bool) -> String {
    let loader = choice.loader();
    let model = choice.load_expression(&loader, "FOLDER");
    let tokenizer = choice.load_expression("AutoTokenizer", "FOLDER");
    let predicts = choice.class.ends_with("ForMaskedLM") || choice.class == "BertForPreTraining";
    let mask = vocab.token(vocab.special().mask);
    let texts = match (predicts, is_pair) {
        (true, _) => format!("\"This is a {mask} text.\""),
        (false, true) => "\"The first text.\", \"The second text.\"".to_owned(),
        (false, false) => "\"This is a text.\"".to_owned(),
    };
    let prediction = if predicts { token_prediction(choice.class) } else { prediction(choice).to_owned() };
    format!(
        "```python\nimport torch\nfrom transformers import AutoTokenizer, {loader}\n\nmodel = {model}\n\
         tokenizer = {tokenizer}\ninputs = tokenizer({texts}, truncation=True, return_tensors=\"pt\")\n\
         with torch.no_grad():\n    outputs = model(**inputs)\n{prediction}\n```\n"
    )
}

fn token_prediction(class: &str) -> String {
    let logits = if class == "BertForPreTraining" { "prediction_logits" } else { "logits" };
    format!(
        "masks = inputs[\"input_ids\"] == tokenizer.mask_token_id\nprediction = tokenizer.decode(outputs.{logits}[masks].argmax(-1))"
    )
}

fn prediction(choice: &ExportChoice) -> &'static str {
    let labelled = choice.heads.iter().find(|head| head.outputs > 0).map(|head| (head.form, head.outputs));
    match labelled {
        Some((HeadRole::LabelRow, 1)) => "prediction = outputs.logits.item()",
        Some((HeadRole::LabelRow, _)) => "prediction = model.config.id2label[outputs.logits.argmax(-1).item()]",
        Some((HeadRole::LabelTokens, _)) => {
            "prediction = [model.config.id2label[label] for label in outputs.logits.argmax(-1)[0].tolist()]"
        }
        Some((HeadRole::LabelSpan, _)) => {
            "start, end = outputs.start_logits.argmax(), outputs.end_logits.argmax()\n\
             prediction = tokenizer.decode(inputs[\"input_ids\"][0, start : end + 1])"
        }
        _ if choice.class.ends_with("ForPreTraining") => "prediction = outputs.logits > 0  # replaced tokens",
        _ => "prediction = outputs.last_hidden_state",
    }
}

//! Check that a post-processor does not change a text that is encoded without special tokens.

use serde_json::Value;

/// Declines a tokenizer whose post-processor might omit or repeat the text.
pub(super) fn decline_more(processor: &Value) -> Result<(), String> {
    if adds_only_around(processor) {
        return Ok(());
    }
    Err("its post-processor may do more than add special tokens".into())
}

fn adds_only_around(processor: &Value) -> bool {
    let list = |key: &str| processor[key].as_array().into_iter().flatten();
    match processor["type"].as_str() {
        None => processor.is_null(),
        // The last one changes only the reported positions of tokens.
        Some("BertProcessing" | "RobertaProcessing" | "ByteLevel") => true,
        Some("Sequence") => list("processors").all(adds_only_around),
        Some("TemplateProcessing") => {
            let texts: Vec<_> = list("single").filter(|part| part["SpecialToken"].is_null()).collect();
            matches!(texts[..], [text] if text["Sequence"]["id"] == "A")
        }
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_said_once_or_there_is_no_path() {
        let text = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
        let special = json!({"SpecialToken": {"id": "[CLS]", "type_id": 0}});
        let template = |single: Value| json!({"type": "TemplateProcessing", "single": single, "pair": []});
        let sequence = |of: Value| json!({"type": "Sequence", "processors": of});
        let right = template(json!([special, text("A"), special]));
        for processor in [Value::Null, right.clone(), json!({"type": "ByteLevel"}), sequence(json!([right, null]))] {
            assert_eq!(decline_more(&processor), Ok(()), "{processor}");
        }
        let twice = template(json!([text("A"), text("A")]));
        for processor in [
            twice.clone(),
            template(json!([])),
            template(json!([special])),
            template(json!([text("B")])),
            sequence(json!([twice])),
            json!({"type": "Another"}),
        ] {
            assert!(decline_more(&processor).is_err(), "{processor}");
        }
    }
}

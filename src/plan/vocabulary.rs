//! Check that models which initialize a run use the vocabulary of its data.
//!
//! The weights of a model show only the size of its vocabulary; another vocabulary may have the same size. The
//! tokenizer next to the weights shows the difference.

use std::collections::BTreeMap;
use std::path::Path;

use schemas::Vocab;
use serde_json::Value;
use trainer_plan::TrainPlan;

/// Returns a warning for each key whose folder has a tokenizer with other tokens than the data.
pub(super) fn warnings(train: &TrainPlan, data: &Vocab) -> Vec<String> {
    let main = train.train.init_from.iter().map(|folder| ("train.init_from".to_owned(), folder.as_path()));
    let generators = train
        .networks
        .iter()
        .filter_map(|(name, network)| network.init().map(|folder| (format!("networks.{name}.init_from"), folder)));
    main.chain(generators)
        .filter_map(|(key, folder)| {
            let difference = difference(&tokens(folder)?, data)?;
            Some(format!("`{key}`: the tokenizer in {} {difference}", folder.display()))
        })
        .collect()
}

/// Describes the difference between tokens and those of the data, for ids that both have.
fn difference(tokens: &BTreeMap<u32, String>, data: &Vocab) -> Option<String> {
    let common = tokens.iter().filter(|(id, _)| **id < data.size());
    let mut different = common.filter(|(id, token)| data.token(**id) != *token);
    let (id, token) = different.next()?;
    let ids = 1 + different.count();
    let ours = data.token(*id);
    Some(format!(
        "has other tokens for {ids} of the data's {} ids, `{token}` instead of `{ours}` for {id}: the model would misread \
         the rows; prepare the corpus with that tokenizer",
        data.size()
    ))
}

/// Returns the tokens by id of a folder in the format of `transformers`, if a vocabulary can be read.
fn tokens(folder: &Path) -> Option<BTreeMap<u32, String>> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let json = |name: &str| serde_json::from_str::<Value>(&read(name)?).ok();
    if let Some(lines) = read("vocab.txt") {
        return Some((0..).zip(lines.lines().map(str::to_owned)).collect());
    }
    match json("tokenizer.json") {
        Some(tokenizer) => {
            let added = tokenizer["added_tokens"].as_array().into_iter().flatten();
            let mut tokens = by_id(&tokenizer["model"]["vocab"])?;
            tokens.extend(added.filter_map(|token| Some((id(&token["id"])?, token["content"].as_str()?.to_owned()))));
            Some(tokens)
        }
        None => by_id(&json("vocab.json")?),
    }
}

/// Returns the tokens by id of a map to ids, or of a list of tokens with scores.
fn by_id(vocab: &Value) -> Option<BTreeMap<u32, String>> {
    match vocab {
        Value::Object(ids) => ids.iter().map(|(token, at)| Some((id(at)?, token.clone()))).collect(),
        Value::Array(scored) => (0..).zip(scored).map(|(at, pair)| Some((at, pair[0].as_str()?.to_owned()))).collect(),
        _ => None,
    }
}

fn id(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| u32::try_from(id).ok())
}

#[cfg(test)]
mod tests {
    use schemas::SpecialIds;
    use store::Store;

    use super::*;

    const DATA: [&str; 7] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "sun", "moon"];

    fn data() -> Vocab {
        let special = SpecialIds { pad: 0, unk: Some(1), cls: 2, sep: 3, mask: 4 };
        Vocab::new(DATA.map(str::to_owned).into(), vec![true; 7], vec![1; 7], special, &[])
    }

    /// Returns the warning for a folder with that file.
    fn warning(name: &str, text: &str) -> Option<String> {
        let home = tempfile::tempdir().expect("a temporary folder");
        Store::folder(home.path()).expect("there").put(name, text.as_bytes()).expect("written");
        difference(&tokens(home.path()).expect("a vocabulary"), &data())
    }

    #[test]
    fn every_format_of_a_vocabulary_is_accepted() {
        let ids: BTreeMap<&str, usize> = DATA.into_iter().zip(0..).collect();
        let map = serde_json::to_string(&ids).expect("JSON");
        assert_eq!(warning("vocab.txt", &DATA.join("\n")), None);
        assert_eq!(warning("vocab.json", &map), None);
        let added = "[{\"id\": 4, \"content\": \"[MASK]\"}]";
        let map = map.replace("\"[MASK]\":4,", "");
        assert_eq!(
            warning("tokenizer.json", &format!("{{\"added_tokens\": {added}, \"model\": {{\"vocab\": {map}}}}}")),
            None
        );
        let scored = serde_json::to_string(&DATA.map(|token| (token, -1.0))).expect("JSON");
        assert_eq!(warning("tokenizer.json", &format!("{{\"model\": {{\"vocab\": {scored}}}}}")), None);
    }

    #[test]
    fn other_tokens_for_the_same_ids_are_reported() {
        let mut other = DATA;
        other.swap(5, 6);
        for (name, text) in [
            ("vocab.txt", other.join("\n")),
            ("vocab.json", "{\"[PAD]\": 0, \"moon\": 5, \"sun\": 6, \"beyond\": 70}".to_owned()),
        ] {
            let message = warning(name, &text).expect("they differ");
            assert!(message.contains("for 2 of the data's 7 ids, `moon` instead of `sun` for 5"), "{message}");
        }
    }

    #[test]
    fn folders_without_a_tokenizer_are_ignored() {
        let home = tempfile::tempdir().expect("a temporary folder");
        assert!(tokens(home.path()).is_none());
        Store::folder(home.path()).expect("there").put("tokenizer.json", b"{").expect("written");
        assert!(tokens(home.path()).is_none());
    }
}

//! Pages of each method, size and corpus are valid, and their numbers agree.

use clap::ValueEnum as _;

use trainer_plan::encoder::RelativePositions;

use super::*;

fn survey(text_bytes: u64) -> Survey {
    Survey {
        inputs: vec!["a \"b\"/*.jsonl".to_owned()],
        format: "jsonl".to_owned(),
        text_field: Some("text".to_owned()),
        id_field: None,
        skipped_files: None,
        files: 3,
        bytes: text_bytes,
        text_bytes,
        document_bytes: vec![220, 4 * 128, 4 * 40],
        is_latin: text_bytes != 100,
        max_document_bytes: 1 << 26,
        long_document: (text_bytes == 10_000).then(|| "a \"b\"/c.jsonl:7".to_owned()),
        unreadable: None,
    }
}

fn model() -> StartModel {
    let encoder = EncoderConfig { gelu: Gelu::Tanh, layer_norm_eps: 1e-5, ..EncoderConfig::default() };
    StartModel { folder: "models/a \"b\"".into(), encoder, lowercase: Some(true), fingerprint: String::new() }
}

#[test]
fn every_corpus_method_and_size_gives_a_valid_file() {
    let sizes = ModelSize::value_variants().iter().copied().map(Some).chain([None]);
    for size in sizes {
        for method in Method::value_variants() {
            for text_bytes in [0, 100, 10_000, 1_300_000, 60_000_000, 4_000_000_000, 500_000_000_000] {
                for has_model in [false, true] {
                    let model = has_model.then(model);
                    let choice = Choice { method: *method, size, model, data: None };
                    let page = page(&survey(text_bytes), "run", &choice);
                    let table: toml::Table = page.parse().unwrap_or_else(|error| panic!("{error}\n{page}"));
                    let number = |section: &str, key: &str| table[section][key].as_integer().expect("a number");
                    assert_eq!(table["prepare"]["inputs"][0].as_str(), Some("a \"b\"/*.jsonl"));
                    assert!(number("train", "global_batch_size") % number("train", "micro_batch_size") == 0);
                    assert!(number("schedule", "warmup_steps") < number("train", "steps"));
                    assert_eq!(number("encoder", "hidden") % number("encoder", "heads"), 0);
                    assert!(number("prepare", "max_seq_len") <= number("encoder", "max_positions"));
                    assert_eq!(table["train"].get("init_from").is_some(), has_model);
                }
            }
        }
    }
    assert_eq!([19, 20, 101, 13_847].map(round), [19, 20, 110, 14_000]);
}

#[test]
fn the_tokenizer_is_not_written_into_the_corpus() {
    for (input, parent) in [("data", "prepared"), ("./data/*.jsonl", "prepared"), ("texts/data", "data")] {
        let survey = Survey { inputs: vec![input.to_owned()], ..survey(1_000_000) };
        let choice = Choice { method: Method::Mlm, size: None, model: None, data: None };
        let table: toml::Table = page(&survey, "run", &choice).parse().expect("valid");
        let key = |key: &str| table["prepare"][key].as_str().expect("a path").to_owned();
        assert_eq!(key("tokenizer"), format!("{parent}/run-tokenizer.json"), "{input}");
        assert_eq!(key("folder"), format!("{parent}/run"), "{input}");
    }
}

#[test]
fn padding_of_short_documents_and_weights_of_a_new_generator_are_explained() {
    let page_of = |method, model| page(&survey(1_000_000), "run", &Choice { method, size: None, model, data: None });
    // 55, 128 and 40 tokens in three rows of 128.
    let electra = page_of(Method::Electra, None);
    assert!(electra.contains("about 42 % of the positions are padding"), "{electra}");
    assert!(!electra.contains("init_from"), "{electra}");
    assert!(!page_of(Method::Mlm, None).contains("padding"), "rows continue with the next document");
    assert!(padding(&[128 * 4 * 10], 128) < 1e-9);
    for method in [Method::Electra, Method::CocoLm] {
        let page = page_of(method, Some(model()));
        assert!(page.contains("no weights for the generator") && page.contains("# init_from = \"FOLDER\""), "{page}");
    }
    assert!(!page_of(Method::Mlm, Some(model())).contains("generator"));
}

/// Shape keys that are left out would be those of another model, and its weights would not fit.
#[test]
fn the_shape_of_a_continued_model_is_written_whole() {
    for relative_positions in [RelativePositions::default(), RelativePositions::MPNET] {
        let encoder = EncoderConfig { relative_positions, embedding: Some(128), ..model().encoder };
        let model = StartModel { encoder: encoder.clone(), ..model() };
        let choice = Choice { method: Method::Mlm, size: None, model: Some(model), data: None };
        let text = page(&survey(1_000_000), "run", &choice);
        let table: toml::Table = text.parse().expect("TOML");
        assert_eq!(table["encoder"].clone().try_into::<EncoderConfig>().expect("an encoder"), encoder, "{text}");
    }
}

#[test]
fn a_prepared_folder_determines_its_settings() {
    let page_of = |text_bytes: u64| {
        let packing = "sentences".to_owned();
        let data = SharedData {
            folder: "data/a".into(),
            max_seq_len: 64,
            packing,
            valid_fraction: Some(0.25),
            rows: 640,
            tokens: 40_000,
        };
        let choice = Choice { method: Method::Electra, size: None, model: None, data: Some(data) };
        page(&survey(text_bytes), "run", &choice)
    };
    let page = page_of(1_000_000);
    let table: toml::Table = page.parse().unwrap_or_else(|error| panic!("{error}\n{page}"));
    let prepare = &table["prepare"];
    assert!(prepare.get("inputs").is_none(), "the corpus is that of the file of its preparation");
    let words = ["folder", "tokenizer", "packing"].map(|key| prepare[key].as_str().expect("a string"));
    assert_eq!(words, ["data/a", "data/a/tokenizer.json", "sentences"]);
    assert_eq!(prepare["max_seq_len"].as_integer(), Some(64));
    assert_eq!(prepare["valid_fraction"].as_float(), Some(0.25));
    assert_eq!(table["encoder"]["max_positions"].as_integer(), Some(64));
    assert!(!table.contains_key("tokenizer"), "{page}");
    let larger: toml::Table = page_of(1 << 40).parse().expect("TOML");
    assert_eq!(larger["train"]["steps"], table["train"]["steps"], "steps follow the rows of the folder");
}

#[test]
fn small_runs_have_sensible_intervals_and_numbers() {
    let numbers = |text_bytes: u64| {
        let choice = Choice { method: Method::Mlm, size: None, model: None, data: None };
        let page = page(&survey(text_bytes), "run", &choice);
        let table: toml::Table = page.parse().expect("TOML");
        let number = |section: &str, key: &str| table[section][key].as_integer().expect("a number");
        let every = ["validation", "checkpoints", "report"].map(|section| number(section, "every_steps"));
        let steps = number("train", "steps");
        let batch = number("train", "global_batch_size");
        (page, steps, batch, every)
    };
    let (page, steps, batch, every) = numbers(48_000);
    assert!(page.contains("some 12 k tokens.\n"), "{page}");
    assert_eq!(every, [50, 50, 10], "{page}");
    // 12,000 tokens are 93 rows of 128, and 5 % of them are for validation.
    let passes = (steps * batch) as f64 / (93.0 * 0.95);
    assert!(page.contains(&format!("# about {passes:.0} passes over the corpus\n")), "{passes} passes\n{page}");
    let (page, steps, _, every) = numbers(100);
    assert_eq!(every, [steps, steps, 10], "{page}");
    let (page, steps, _, every) = numbers(500_000_000_000);
    assert_eq!(every, [steps / 10, steps / 10, steps / 100], "{page}");
}

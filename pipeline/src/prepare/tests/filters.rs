//! Normalization and filters: applied in order, counted, the same for any number of workers.

use ::filters::{AnyFilter, Normalization};
use schemas::manifest::TextCount;

use super::*;
use crate::prepare::document_table;

pub(super) fn filters(settings: &str) -> Vec<AnyFilter> {
    #[derive(serde::Deserialize)]
    struct Written {
        filters: Vec<AnyFilter>,
    }
    toml::from_str::<Written>(settings).expect("filters").filters
}

/// The usual corpus. A third of the documents has `hat` and is removed; a third has `中文`, which is cut out.
fn home() -> Home {
    let mut home = Home::new();
    home.config.normalization = Normalization { collapse_blanks: true, ..Normalization::default() };
    home.config.filters = filters(
        "[[filters]]\nkind = 'regex'\npattern = 'hat'\n[[filters]]\nkind = 'regex'\npattern = ' *中文'\naction = 'replace'\n\
         [[filters]]\nkind = 'text_length'\nmin_characters = 26\n",
    );
    home
}

#[test]
fn filters_are_applied_in_order_and_counted_by_rule() {
    let mut home = home();
    // No removed document is a bad line.
    home.config.max_bad_lines = Some(0);
    let summary = home.run().expect("prepared");
    let [normalization, remove, replace, length] = &summary.corpus.filters[..] else { panic!("{:?}", summary.corpus) };
    let names = summary.corpus.filters.iter().map(|filter| filter.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["normalization", "regex", "regex_2", "text_length"]);
    let documents =
        |filter: &schemas::manifest::FilterReport| [filter.read, filter.removed_in_all()].map(|it| it.documents);
    assert_eq!(documents(normalization), [240, 0]);
    assert_eq!((documents(remove), remove.removed["match"].documents), ([240, 80], 80));
    // A blank and two letters of three bytes.
    assert_eq!((documents(replace), replace.changed, replace.cut_bytes), ([160, 0], 80, 80 * 7));
    // `the cat sat on the mat. N` has 25 characters for N below 10.
    assert_eq!((documents(length), length.removed["too_few_characters"].bytes), ([160, 10], 250));
    assert_eq!(summary.corpus.documents, 150);
    assert_eq!(summary.corpus.rejected, BTreeMap::new());
    let bytes = |count: TextCount| count.bytes;
    let read = bytes(remove.read) - bytes(remove.removed_in_all()) - replace.cut_bytes - 250;
    assert_eq!(summary.corpus.text_bytes, read);
    let first = &summary.filtered[0];
    assert_eq!((first.filter.as_str(), first.rule.as_str(), summary.filtered.len()), ("regex", "match", 6));
    assert!(first.text.starts_with("it's a mat, a cat, 1 hat") && first.place.contains(".txt:"), "{first:?}");
}

#[test]
fn filtered_bytes_do_not_depend_on_workers_or_interruptions() {
    let home = home();
    let one = prepare(&home.config("one", 1)).expect("prepared");
    let expected = files(&home.folder.path().join("one"));
    assert!(records(&expected) >= 10, "too few parts to prove anything");
    let four = prepare(&home.config("four", 4)).expect("prepared");
    assert!(files(&home.folder.path().join("four")) == expected);
    assert_eq!((&one.corpus, &one.filtered), (&four.corpus, &four.filtered));
    // Without the last parts and the manifest, as after a kill.
    let folder = home.folder.path().join("four");
    fs::remove_file(folder.join("manifest.json")).expect("there");
    let last: Vec<String> = expected.keys().filter(|name| name.starts_with("parts/")).skip(4).cloned().collect();
    for name in &last {
        fs::remove_file(folder.join(name)).expect("there");
    }
    let resumed = prepare(&home.config("four", 2)).expect("prepared");
    assert_eq!(resumed.parts_skipped, 4);
    assert!(files(&folder) == expected);
    assert_eq!((&one.corpus, &one.filtered), (&resumed.corpus, &resumed.filtered));
}

#[test]
fn ids_are_those_of_the_text_as_read() {
    let home = home();
    home.run().expect("prepared");
    let mut found = BTreeSet::new();
    document_table::each_document(&home.store(), |document, _| {
        found.insert(document);
    })
    .expect("tables");
    let text = "cats sat; the mats sat on 中文 2";
    assert!(found.contains(&Document::hash(&Document::digest(text))));
    assert!(!found.contains(&Document::hash(&Document::digest("cats sat; the mats sat on 2"))));
}

#[test]
fn a_folder_has_one_set_of_filters() {
    let mut home = Home::new();
    home.run().expect("prepared");
    assert!(home.run().expect("nothing to do").nothing_to_do);
    home.config.filters = filters("[[filters]]\nkind = 'text_length'\n");
    let error = home.run().expect_err("other settings").to_string();
    assert!(error.contains("`filters` = not set, now [{"), "{error}");
}

#[test]
fn a_word_list_counts_by_its_content() {
    let mut home = Home::new();
    let list = |name: &str, words: &str| {
        write_all(home.folder.path(), &[(name, words)]);
        let path = home.folder.path().join(name);
        filters(&format!("[[filters]]\nkind = 'blocklist'\nfile = '{}'\n", path.display()))
    };
    let [one, same, other] = [list("a.txt", "Hat\n"), list("b.txt", "Hat\n"), list("c.txt", "mat\n")];
    home.config.filters = one;
    let summary = home.run().expect("prepared");
    assert_eq!(summary.corpus.filters[0].removed["blocked"].documents, 80);
    home.config.filters = same;
    assert!(home.run().expect("the same list").nothing_to_do);
    home.config.filters = other;
    assert!(home.run().expect_err("another list").to_string().contains("`filters`"));
    home.config.filters =
        filters("[[filters]]\nkind = 'text_length'\n[[filters]]\nkind = 'blocklist'\nfile = '/no/such/list'\n");
    let error = home.run().expect_err("no list").to_string();
    assert!(error.contains("`prepare.filters[1].file`") && error.contains("/no/such/list"), "{error}");
    home.config.filters = filters("[[filters]]\nkind = 'regex'\npattern = '('\n");
    let error = home.run().expect_err("no pattern").to_string();
    assert!(error.contains("`prepare.filters[0].pattern`") && error.contains("unclosed group"), "{error}");
}

#[test]
fn a_corpus_without_a_kept_document_names_the_filter() {
    let mut home = Home::new();
    home.config.filters = filters("[[filters]]\nkind = 'gopher_quality'\n");
    let error = home.run().expect_err("every document is short").to_string();
    assert!(error.contains("`gopher_quality` removed 240 (too_few_words 240)"), "{error}");
    assert!(error.contains("`[[prepare.filters]]`"), "{error}");
    assert!(home.data().is_empty(), "nothing is left behind: {:?}", home.data().keys());
}

#[test]
fn a_dry_run_samples_the_same_documents_for_any_workers_and_writes_nothing() {
    let home = home();
    let dry = |workers, share| {
        let options = PrepareOptions { null_writer: true, sample: Some(share), ..PrepareOptions::default() };
        let config = home.config("dry", workers);
        Preparation::plan_dry(&config)?.run(options, &Clock::still(), &mut Fanout::default())
    };
    let [one, four] = [1, 4].map(|workers| dry(workers, 0.5).expect("a sample"));
    assert_eq!((&one.corpus, &one.filtered, one.lines), (&four.corpus, &four.filtered, 240));
    let read = one.corpus.filters[0].read.documents;
    assert!((90..150).contains(&read), "{read} of 240");
    assert_eq!(dry(2, 1.0).expect("all").corpus, home.run().expect("prepared").corpus);
    let error = dry(1, 1e-9).expect_err("no document").to_string();
    assert!(error.contains("`--sample`"), "{error}");
    assert!(!home.folder.path().join("dry").exists());
    // A folder with other settings does not matter.
    let config = PrepareConfig { filters: Vec::new(), ..home.config.clone() };
    let options = PrepareOptions { null_writer: true, sample: Some(0.5), ..PrepareOptions::default() };
    let planned = Preparation::plan_dry(&config).expect("no folder is read");
    assert!(planned.run(options, &Clock::still(), &mut Fanout::default()).expect("a sample").corpus.filters.len() == 1);
}

//! Contract tests, run over every registered filter.

use std::time::{Duration, Instant};

use super::{AnyFilter, FilterVerdict, LoadedFilter};

/// Content of the word lists of the tests.
const LIST: &[u8] = b"spam\ncheap pills\n\xe4\xb8\xad\xe6\x96\x87\n";

/// One of each filter, with the settings that have no default.
pub(super) fn filters() -> Vec<LoadedFilter> {
    let complete = |filter: AnyFilter| {
        let lax = |kind: &str, settings: &str| {
            let text = format!("kind = \"{kind}\"\n{settings}");
            toml::from_str::<AnyFilter>(&text).expect("settings of this version")
        };
        match filter.kind() {
            "regex" => vec![
                lax("regex", "pattern = 'c[a-z]+t|\\bspam'"),
                lax("regex", "pattern = '(a|b)+'\naction = 'replace'\nreplacement = '[$1]'"),
            ],
            "pii" => vec![filter, lax("pii", "phone_numbers = true")],
            "c4" => vec![
                filter,
                lax("c4", "min_sentences = 0\nmin_words_per_line = 0\nend_marks = []\nbad_words_file = 'list'"),
            ],
            "ratios" => vec![filter, lax("ratios", "min_stop_words = 0.1\nmax_stop_words = 0.9")],
            _ => vec![filter],
        }
    };
    AnyFilter::examples().into_iter().flat_map(complete).map(|filter| load(&filter)).collect()
}

fn load(filter: &AnyFilter) -> LoadedFilter {
    let list = filter.file().map(|_| LIST);
    let built = filter.build(list).unwrap_or_else(|problem| panic!("{}: {problem}", filter.kind()));
    LoadedFilter { kind: filter.kind(), filter: built, file: None }
}

/// Texts that are unusual in some way.
fn texts() -> Vec<String> {
    let line = "The cat sat on the mat, and that was the end of it. Who would have known?\n";
    let mut texts: Vec<String> =
        ["", "a", "\n", " ", "中", "\u{301}", "\u{10ffff}", "{", "@", "+", "]", "…", "."].map(String::from).to_vec();
    for character in ['a', ' ', '\n', '.', '@', '1', ':', ']', '[', '#', '中', '\u{301}', '\u{fdfa}'] {
        texts.push(character.to_string().repeat((1 << 20) / character.len_utf8()));
    }
    texts.push(line.repeat(20));
    texts.push(
        (0..2000)
            .map(|number| format!("Line {number} of many has the number {number} in it."))
            .collect::<Vec<_>>()
            .join("\n"),
    );
    texts.push("a b ".repeat(1 << 18));
    texts.push("1.1.1.1 ".repeat(1 << 15));
    texts.push("a@b.cd".repeat(1 << 15));
    texts.push("[1[1[1".repeat(1 << 15) + &"]".repeat(1 << 17));
    texts.push("这是一个没有空格的句子。他们说中文！".repeat(1 << 12));
    texts.push("ชุดตัวอักษรไทยไม่มีช่องว่างระหว่างคำ ".repeat(1 << 10));
    texts.push("هذه جملة باللغة العربية. ".repeat(1 << 10));
    texts.push("Ärger mit ßßß und İstanbul ǅ ".repeat(1 << 12));
    texts.push("write to jane.doe@mail.example.org or 8.8.8.8, call +44 20 7946 0958.\n".repeat(9));
    texts
}

#[test]
fn every_filter_survives_toml_and_refuses_unknown_keys() {
    for filter in AnyFilter::examples() {
        let name = filter.kind();
        let text = toml::to_string(&filter).expect("a table");
        assert!(text.contains(&format!("kind = \"{name}\"")), "the name in counts is that of the settings: {text}");
        assert_eq!(toml::from_str::<AnyFilter>(&text).expect("of this version"), filter, "{name}");
        assert!(toml::from_str::<AnyFilter>(&format!("unknown = 1\n{text}")).is_err(), "{name}");
        // Only what has no default can be missing.
        let problems = filter.problems();
        assert!(problems.iter().all(|problem| problem.message == "it is missing"), "{name}: {problems:?}");
        assert!(problems.iter().all(|problem| problem.hint.is_some()), "{name}: {problems:?}");
    }
}

#[test]
fn every_filter_is_pure_and_names_its_rules() {
    for filter in filters() {
        for text in texts() {
            let name = filter.kind();
            let start = crate::text::front(&text, 40);
            let verdict = filter.apply(&text);
            assert_eq!(filter.apply(&text), verdict, "{name}: {start:?}");
            match verdict {
                FilterVerdict::Keep => {}
                FilterVerdict::Change(changed) => {
                    assert!(changed != text && !changed.trim().is_empty(), "{name}: {start:?}");
                }
                FilterVerdict::Remove(reason) => {
                    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
                    let rule = reason.rule;
                    assert!(!rule.is_empty() && rule.bytes().all(is_name), "{name}: `{rule}`");
                    let is_outside = |(value, bound): (f64, f64)| value.is_finite() && value.total_cmp(&bound).is_ne();
                    assert_eq!(reason.value.is_some(), reason.bound.is_some(), "{name}: {reason:?}");
                    assert!(reason.value.zip(reason.bound).is_none_or(is_outside), "{name}: {reason:?}");
                    assert!(reason.found.is_none_or(|found| found.len() <= 100), "{name}: `{rule}`");
                }
            }
        }
    }
}

#[test]
fn a_filter_that_claims_to_be_idempotent_keeps_what_it_returned() {
    for settings in AnyFilter::examples().iter().filter(|filter| filter.problems().is_empty() && filter.is_idempotent())
    {
        let filter = load(settings);
        for text in texts() {
            if let FilterVerdict::Change(changed) = filter.apply(&text) {
                let start = crate::text::front(&text, 40);
                assert_eq!(filter.apply(&changed), FilterVerdict::Keep, "{}: {start:?}", filter.kind());
            }
        }
    }
}

/// A quadratic filter would need minutes. The bound is far above what a debug build needs, so that a busy machine passes.
#[test]
fn a_megabyte_takes_no_quadratic_time() {
    for filter in filters() {
        for text in texts() {
            let begin = Instant::now();
            let _ = filter.apply(&text);
            let start = crate::text::front(&text, 40);
            assert!(begin.elapsed() < Duration::from_secs(30), "{}: {start:?}", filter.kind());
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a file of a test")]
fn the_digest_of_a_list_is_that_of_its_content() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("list.txt");
    let filter: AnyFilter =
        toml::from_str(&format!("kind = 'blocklist'\nfile = '{}'", path.display())).expect("a filter");
    let error = filter.load().expect_err("no such file").to_string();
    assert!(error.contains("`file`") && error.contains("list.txt"), "{error}");
    std::fs::write(&path, LIST).expect("room for it");
    let loaded = filter.load().unwrap_or_else(|problem| panic!("{problem}"));
    let digest = loaded.file().expect("it has a list");
    assert_eq!((digest.key, digest.blake3.as_str()), ("file", blake3::hash(LIST).to_hex().as_str()));
    assert_eq!(loaded.apply("no SPAM").without_measures(), FilterVerdict::remove("blocked"));
}

//! Fuzz targets: texts and word lists from anywhere.

use super::FilterVerdict;
use super::contract::filters;
use crate::normalization::{Normalization, UnicodeForm};
use crate::word_list::{MatchOptions, WordList};

fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "The cat sat on the mat.\nWho knew? Not the dog [1]. \"No!\"\n\nWe use cookies {x}.",
        "Write to a.b@c.org, 8.8.8.8:53, 2606:4700::1111, +44 20 7946 0958, (212) 555-1234.",
        "中文没有空格。ไทย हिन्दी العربية ﷺ e\u{301} \u{feff}\u{7}\r\n\t\u{a0}",
        "- one…\n• two...\n* three # four\n- one…\n- one…\n",
        "a b a b a b c a b a b a b c a b a b a b c",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

#[test]
fn any_text_is_kept_changed_or_removed() {
    let filters = std::panic::AssertUnwindSafe(filters());
    let normalization = Normalization {
        unicode: UnicodeForm::Nfkc,
        remove_control: true,
        collapse_blanks: true,
        trim_lines: true,
        max_blank_lines: Some(1),
    };
    fuzz::target!("filters", seeds(), |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let once = normalization.apply(&text);
        assert_eq!(normalization.apply(&once), once);
        for filter in filters.iter() {
            if let FilterVerdict::Change(changed) = filter.apply(&text) {
                assert!(changed != text && !changed.trim().is_empty(), "{}", filter.kind());
                if matches!(filter.kind(), "c4" | "pii") {
                    assert_eq!(filter.apply(&changed), FilterVerdict::Keep, "{}: {changed:?}", filter.kind());
                }
            }
        }
    });
}

#[test]
fn any_word_list_is_read_or_refused() {
    let made = vec![b"spam\ncheap pills\n".to_vec(), "Ärger\r\n中文\n\n".as_bytes().to_vec()];
    fuzz::target!("word_lists", made, |bytes: &[u8]| {
        for (case_sensitive, whole_words) in [(false, true), (true, false)] {
            let options = MatchOptions { case_sensitive, whole_words };
            match WordList::parse("file", bytes, options) {
                Ok(words) => {
                    let text = String::from_utf8_lossy(bytes);
                    assert!(case_sensitive || whole_words || words.count(&text, 1) == 1);
                }
                Err(problem) => assert!(problem.hint.is_some()),
            }
        }
    });
}

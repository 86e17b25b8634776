//! Pages of object lists without the objects whose keys no request can name.
//!
//! # Why
//! `object_store` refuses a whole page if one key on it has an empty part, a part `.` or `..`, or a control character. It
//! takes the keys `/a` and `a/` for `a`, which is another object. Any writer of a bucket could so hide a prefix.
//!
//! # Definition
//! The entries of such keys are removed from a page before `object_store` parses it, and counted. Empty objects whose keys
//! end with `/` mark folders, and are removed without a count.
//!
//! A list ends with the first page that names no next one. A page whose token or first key an earlier page of the same
//! list had, and a page beyond the [`MAX_PAGES`]th, are errors: a faulty server would otherwise be asked without end.
//!
//! # Reference
//! Amazon S3 API Reference, `ListObjectsV2`; Azure Blob Storage REST API, "List Blobs".

use std::collections::BTreeSet;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use object_store::path::Path;
use store::notice;
use tracing::warn;

/// Keys that a message names, at most.
const MAX_SHOWN: usize = 5;

/// Longest part of a key that a message repeats.
const MAX_SHOWN_CHARS: usize = 200;

/// Most pages of a list: a hundred million objects at a thousand each.
const MAX_PAGES: usize = 100_000;

tokio::task_local! {
    /// State of this listing.
    static LISTING: Arc<Mutex<Listing>>;
}

/// Pages of a listing so far.
#[derive(Debug)]
struct Listing {
    began: Instant,
    skipped: SkippedKeys,
    pages: usize,
    /// Tokens and first keys of the pages.
    seen: BTreeSet<(&'static str, [u8; 32])>,
}

impl Listing {
    fn new() -> Self {
        Self { began: Instant::now(), skipped: SkippedKeys::default(), pages: 0, seen: BTreeSet::new() }
    }

    /// Adds a page.
    fn add(&mut self, page: &[u8], format: &PageFormat, skipped: SkippedKeys) -> io::Result<()> {
        self.pages += 1;
        let text = |tags| element(page, tags, 0).map(|(start, end)| &page[start..end]);
        let marks = [("token", text(format.next)), ("key", text(format.entry).and_then(|entry| key_of(entry, format)))];
        for (kind, mark) in marks {
            if mark.is_some_and(|mark| !self.seen.insert((kind, blake3::hash(mark).into()))) {
                return Err(endless(&format!("its page {} repeats the {kind} of an earlier one", self.pages)));
            }
        }
        if self.pages > MAX_PAGES {
            return Err(endless(&format!("it has more than {MAX_PAGES} pages")));
        }
        if self.began.elapsed() >= notice::AFTER && notice::is_due() {
            warn!(pages = self.pages, "store: a long list of objects is being read");
        }
        self.skipped.count += skipped.count;
        let room = MAX_SHOWN - self.skipped.shown.len();
        self.skipped.shown.extend(skipped.shown.into_iter().take(room));
        Ok(())
    }
}

fn endless(why: &str) -> io::Error {
    let message = format!("the list of objects does not end: {why}; name a smaller prefix, or check the server");
    io::Error::new(ErrorKind::InvalidData, message)
}

/// Objects that a listing leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SkippedKeys {
    pub(crate) count: u64,
    /// First keys, readable.
    pub(crate) shown: Vec<String>,
}

impl SkippedKeys {
    fn add(&mut self, key: &[u8]) {
        self.count += 1;
        if self.shown.len() < MAX_SHOWN {
            let key = String::from_utf8_lossy(key);
            let dots = if key.chars().nth(MAX_SHOWN_CHARS).is_some() { "…" } else { "" };
            let start: String = key.chars().take(MAX_SHOWN_CHARS).collect();
            self.shown.push(format!("{}{dots}", start.escape_debug()));
        }
    }
}

/// Element names of a page.
struct PageFormat {
    entry: [&'static [u8]; 2],
    key: [&'static [u8]; 2],
    empty: &'static [u8],
    /// Token of the next page. An empty element of the last page has no separate end.
    next: [&'static [u8]; 2],
}

/// Pages of S3 and of Google Cloud Storage.
const S3: PageFormat = PageFormat {
    entry: [b"<Contents>", b"</Contents>"],
    key: [b"<Key>", b"</Key>"],
    empty: b"<Size>0</Size>",
    next: [b"<NextContinuationToken>", b"</NextContinuationToken>"],
};

const AZURE: PageFormat = PageFormat {
    entry: [b"<Blob>", b"</Blob>"],
    key: [b"<Name>", b"</Name>"],
    empty: b"<Content-Length>0</Content-Length>",
    next: [b"<NextMarker>", b"</NextMarker>"],
};

/// Beginning of a page of Azure.
const AZURE_LIST: &[u8] = b"<EnumerationResults";

/// Whether a request asks for a page of a list, by its query.
pub(crate) fn is_list(method: &str, query: &str) -> bool {
    method == "GET" && query.split('&').any(|parameter| matches!(parameter, "list-type=2" | "comp=list"))
}

/// Runs a listing. Returns the objects that were left out of its pages.
pub(crate) async fn with_skipped<T>(listing: impl Future<Output = T>) -> (T, SkippedKeys) {
    let state = Arc::new(Mutex::new(Listing::new()));
    let listed = LISTING.scope(Arc::clone(&state), listing).await;
    let skipped = state.lock().unwrap_or_else(PoisonError::into_inner).skipped.clone();
    (listed, skipped)
}

/// Begins the pages of this listing again, from another key.
pub(crate) fn restart() {
    let _ = LISTING.try_with(|listing| listing.lock().unwrap_or_else(PoisonError::into_inner).seen.clear());
}

/// Returns a page without objects that no request can name. Fails if the pages do not end.
pub(crate) fn usable_part(page: &[u8]) -> io::Result<Vec<u8>> {
    let mut skipped = SkippedKeys::default();
    let format = if find(page, AZURE_LIST, 0).is_some() { AZURE } else { S3 };
    let usable = filtered(page, &format, &mut skipped);
    // Outside of `with_skipped` there is one page.
    let added = LISTING.try_with(|listing| {
        let mut listing = listing.lock().unwrap_or_else(PoisonError::into_inner);
        listing.add(page, &format, skipped)
    });
    added.unwrap_or(Ok(())).map(|()| usable)
}

/// Returns the key of an entry, escaped.
fn key_of<'a>(entry: &'a [u8], format: &PageFormat) -> Option<&'a [u8]> {
    let (start, end) = element(entry, format.key, 0)?;
    entry[start..end].strip_prefix(format.key[0])?.strip_suffix(format.key[1])
}

fn filtered(page: &[u8], format: &PageFormat, skipped: &mut SkippedKeys) -> Vec<u8> {
    let mut usable = Vec::with_capacity(page.len());
    let mut at = 0;
    while let Some((start, end)) = element(page, format.entry, at) {
        let entry = &page[start..end];
        let key = key_of(entry, format);
        let text = key.and_then(unescaped);
        let is_marker = text.as_deref().is_some_and(|key| key.ends_with('/')) && find(entry, format.empty, 0).is_some();
        usable.extend_from_slice(&page[at..start]);
        if text.as_deref().is_some_and(is_usable) {
            usable.extend_from_slice(entry);
        } else if !is_marker {
            skipped.add(text.as_deref().map_or(key.unwrap_or_default(), str::as_bytes));
        }
        at = end;
    }
    usable.extend_from_slice(&page[at..]);
    usable
}

/// Whether a request for a key asks for the object of that key.
fn is_usable(key: &str) -> bool {
    Path::parse(key).is_ok_and(|path| path.as_ref() == key)
}

/// Returns the range of the next element from its first tag to the end of its last one.
fn element(text: &[u8], tags: [&[u8]; 2], from: usize) -> Option<(usize, usize)> {
    let start = find(text, tags[0], from)?;
    let end = find(text, tags[1], start)?;
    Some((start, end + tags[1].len()))
}

fn find(text: &[u8], wanted: &[u8], from: usize) -> Option<usize> {
    text[from..].windows(wanted.len()).position(|window| window == wanted).map(|at| from + at)
}

/// Returns a text of XML without its escapes; `None` if it is not UTF-8 or has an unknown escape.
fn unescaped(text: &[u8]) -> Option<String> {
    let mut parts = std::str::from_utf8(text).ok()?.split('&');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (escape, rest) = part.split_once(';')?;
        let number = |text: &str, radix| u32::from_str_radix(text, radix).ok().and_then(char::from_u32);
        plain.push(match escape {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            _ => match escape.strip_prefix('#')? {
                hex if hex.starts_with(['x', 'X']) => number(&hex[1..], 16)?,
                decimal => number(decimal, 10)?,
            },
        });
        plain.push_str(rest);
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(keys: &[&[u8]], bytes: usize) -> Vec<u8> {
        let size = format!("</Key><Size>{bytes}</Size></Contents>");
        let entries = keys.iter().map(|key| [b"<Contents><Key>", *key, size.as_bytes()].concat());
        [b"<ListBucketResult>".to_vec(), entries.collect::<Vec<_>>().concat(), b"</ListBucketResult>".to_vec()].concat()
    }

    fn skipped(page: &[u8], format: &PageFormat) -> (Vec<u8>, SkippedKeys) {
        let mut skipped = SkippedKeys::default();
        (filtered(page, format, &mut skipped), skipped)
    }

    #[test]
    fn only_keys_that_no_request_names_are_left_out() {
        let usable: [&[u8]; 7] = [b"a", b"a/b.txt", b"%FF", b"..a/b..", b"a&amp;b&#x26;&#38;", "ä/中".as_bytes(), b" "];
        let whole = page(&usable, 1);
        assert_eq!(skipped(&whole, &S3), (whole.clone(), SkippedKeys::default()));
        let refused: [&[u8]; 11] = [
            b"a//b",
            b"/a",
            b"a/",
            b"..",
            b"a/../b",
            b"a/./b",
            b"a&#x1;b",
            b"a\nb",
            b"a/&#46;&#x2e;/b",
            b"\xff",
            b"&unknown;",
        ];
        for key in refused {
            let found = skipped(&page(&[b"x", key, b"y"], 1), &S3);
            assert_eq!(found.0, page(&[b"x", b"y"], 1), "{}", key.escape_ascii());
            assert_eq!((found.1.count, found.1.shown.len()), (1, 1), "{}", key.escape_ascii());
            assert!(!found.1.shown[0].chars().any(char::is_control), "{:?}", found.1);
        }
    }

    #[test]
    fn markers_of_folders_are_left_out_without_a_count() {
        assert_eq!(skipped(&page(&[b"a/", b"a/b"], 0), &S3), (page(&[b"a/b"], 0), SkippedKeys::default()));
    }

    #[test]
    fn the_count_is_exact_and_what_is_shown_is_bounded() {
        let long = [b"/".to_vec(), vec![b'k'; 10_000]].concat();
        let (rest, found) = skipped(&page(&vec![&*long; 2000], 1), &S3);
        assert_eq!((rest, found.count, found.shown.len()), (page(&[], 1), 2000, MAX_SHOWN));
        assert!(found.shown.iter().all(|key| key.chars().count() <= MAX_SHOWN_CHARS + 1));
    }

    #[test]
    fn pages_of_azure_are_read_too() {
        let blob = |name: &str, bytes: usize| {
            format!("<Blob>{name}<Properties><Content-Length>{bytes}</Content-Length></Properties></Blob>")
        };
        let page = |blobs: &[String]| format!("<Blobs>{}</Blobs>", blobs.concat()).into_bytes();
        let good = blob("<Name>a/b</Name>", 3);
        let bad = [blob("<Name>a//b</Name>", 3), blob("<Name Encoded=\"true\">a%EF%BF%BF</Name>", 3)];
        let marker = blob("<Name>a/</Name>", 0);
        let (rest, found) = skipped(&page(&[good.clone(), bad[0].clone(), bad[1].clone(), marker]), &AZURE);
        assert_eq!((rest, found.count), (page(&[good]), 2));
        assert_eq!(found.shown, ["a//b", ""]);
    }

    /// Pages that say that there are more: with the same token, with new tokens and the same objects, and both new.
    #[test]
    fn pages_that_repeat_earlier_ones_end_the_list() {
        let s3 = |key: &str, token: &str| {
            format!("<Contents><Key>{key}</Key></Contents><NextContinuationToken>{token}</NextContinuationToken>")
        };
        let azure = |key: &str, token: &str| format!("<Blob><Name>{key}</Name></Blob><NextMarker>{token}</NextMarker>");
        let outcome = |pages: &[String], format: &PageFormat| {
            let mut listing = Listing::new();
            let mut added = pages.iter().map(|page| listing.add(page.as_bytes(), format, SkippedKeys::default()));
            added.find_map(Result::err).map(|error| error.to_string()).unwrap_or_default()
        };
        for (page, format) in [(&s3 as &dyn Fn(&str, &str) -> String, S3), (&azure, AZURE)] {
            assert_eq!(outcome(&[page("a", "1"), page("b", "2"), page("c", "")], &format), "");
            let same_token = outcome(&[page("a", "1"), page("b", "1")], &format);
            assert!(same_token.contains("its page 2 repeats the token"), "{same_token}");
            let same_key = outcome(&[page("a", "1"), page("b", "2"), page("a", "3")], &format);
            assert!(same_key.contains("its page 3 repeats the key"), "{same_key}");
            let new: Vec<String> = (0..=MAX_PAGES).map(|page| page.to_string()).map(|at| page(&at, &at)).collect();
            assert_eq!(outcome(&new[..MAX_PAGES], &format), "");
            assert!(outcome(&new, &format).contains("more than 100000 pages"));
        }
    }

    #[test]
    fn pages_that_are_cut_stay_as_they_are() {
        let whole = page(&[b"a//b"], 1);
        for end in 0..whole.len() - b"</Contents></ListBucketResult>".len() {
            assert_eq!(skipped(&whole[..end], &S3), (whole[..end].to_vec(), SkippedKeys::default()));
        }
        assert!(is_list("GET", "prefix=a&list-type=2") && is_list("GET", "restype=container&comp=list"));
        assert!(!is_list("GET", "comp=blocklist") && !is_list("PUT", "comp=list") && !is_list("GET", ""));
    }
}

use crate::corpus::AnyFormat;
use crate::corpus::scanner::SEARCHED_BYTES;
use crate::corpus::tests::{config, read};
use crate::testing::{compressed, write_all};

/// Returns a record with this content.
pub(super) fn record(kind: &str, media_type: &str, content: &str) -> String {
    let length = content.len();
    format!(
        "WARC/1.0\r\nWARC-Type: {kind}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\r\n{content}\r\n\r\n"
    )
}

/// Returns a file with records that are broken in several ways.
pub(super) fn dirty() -> Vec<u8> {
    let plain = |text: &str| record("conversion", "text/plain", text);
    let html = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>text</p>";
    let text = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nfour";
    let gone = "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n\r\ngone";
    let mut file = plain("one\ntwo?").replace('?', "\u{1}").into_bytes();
    let at = file.iter().position(|&byte| byte == 1).expect("it is there");
    file[at] = 0xff;
    file.extend_from_slice("WARC/1.0\r\nno header\r\n\r\nlost\r\n\r\n".as_bytes());
    file.extend_from_slice(plain("three").as_bytes());
    file.extend_from_slice(record("response", "application/http; msgtype=response", html).as_bytes());
    file.extend_from_slice(plain("too").replace("Length: 3", "Length: 40").as_bytes());
    file.extend_from_slice(record("response", "application/http", text).as_bytes());
    file.extend_from_slice(record("response", "application/http", gone).as_bytes());
    file.extend_from_slice(plain("short").replace("Length: 5", "Length: 2").as_bytes());
    file.extend_from_slice(plain("five").as_bytes());
    file
}

#[test]
fn records_of_members_are_documents_with_ids() {
    let name = "CC-MAIN-1.warc.wet.gz";
    let records = ["one", "two"].map(|text| {
        let record = record("conversion", "text/plain", text);
        // Some programs write addresses in brackets.
        let (open, close) = if text == "two" { ("<", ">") } else { ("", "") };
        let named = format!("WARC-Target-URI: {open}https://example.org/{text}{close}\r\nContent-Type");
        compressed("a.gz", record.replacen("Content-Type", &named, 1).as_bytes())
    });
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = store::Store::folder(home.path()).expect("a folder");
    folder.put(name, &records.concat()).expect("written");
    let mut cut = config(home.path(), AnyFormat::of_kind("warc").expect("known"), None);
    cut.config.reading.id_field = Some("warc-target-uri".into());
    assert_eq!(read(&cut).expect("readable"), (vec!["one".into(), "two".into()], vec![]));
    let corpus = crate::corpus::Corpus::open(&cut.config).expect("readable");
    let parts = crate::corpus::tests::parts(&corpus, 1 << 20).expect("cut");
    let ids: Vec<_> = crate::corpus::tests::documents(&corpus, &parts[0])
        .expect("opened")
        .filter_map(|found| found.expect("readable").document)
        .map(|document| document.id)
        .collect();
    assert_eq!(ids, ["https://example.org/one", "https://example.org/two"]);
    cut.config.reading.id_field = Some("WARC-Record-ID".into());
    assert_eq!(read(&cut).expect("readable").1, [format!("missing_field@{name}:1"), format!("missing_field@{name}:9")]);
}

/// Records whose headers or lengths lead far ahead, to bytes that the records after them lead to as well.
#[test]
fn broken_records_are_searched_once() {
    const RECORDS: usize = 20_000;
    let far = RECORDS * 100;
    let claim = |content: &str| format!("WARC/1.0\r\nContent-Length: {far}\r\n{content}\r\n\r\n");
    let spaces = [claim("X: y").repeat(RECORDS), "\nWARC/1.0\n".to_owned() + &" ".repeat(2 * far) + "x\n"].concat();
    let response = claim("WARC-Type: response\r\nContent-Type: application/http").repeat(RECORDS / 10);
    for (name, bytes) in [
        ("headers.warc", "WARC/1.0\n".repeat(RECORDS)),
        ("colons.warc", "WARC/1.0: x\n".repeat(RECORDS)),
        ("claims.warc", claim("X: y").repeat(RECORDS)),
        ("spaces.warc", spaces),
        ("responses.warc", response),
    ] {
        let home = tempfile::tempdir().expect("a temporary folder");
        let bytes = bytes + "\n" + &record("conversion", "text/plain", "last");
        write_all(home.path(), &[(name, &bytes)]);
        let before = SEARCHED_BYTES.get();
        let mut cut = config(home.path(), AnyFormat::of_kind("warc").expect("known"), None);
        cut.config.reading.max_document_bytes = 64 << 20;
        let (texts, complaints) = read(&cut).expect("readable");
        assert_eq!(texts, ["last"], "{name}");
        assert!(complaints.len() >= RECORDS / 10, "{name}: {} broken records", complaints.len());
        let searched = SEARCHED_BYTES.get() - before;
        assert!((10_000..4 * bytes.len()).contains(&searched), "{name}: {searched} bytes of {}", bytes.len());
    }
}

/// A response of more than the memory, of any type. Only text is a document that the user must allow to skip.
#[test]
fn long_responses_are_classified_by_their_own_headers() {
    let long = "x".repeat(300_000);
    let response = |status: &str, headers: &str| {
        let http = format!("HTTP/1.1 {status}\r\n{headers}\r\n\r\n{long}");
        record("response", "application/http; msgtype=response", &http)
    };
    let pictures = response("200 OK", "Content-Type: image/png");
    let gone = response("404 Not Found", "Content-Type: text/plain");
    let unreadable = response("200 OK", &format!("Content-Type: text/plain\r\nX: {}", "y".repeat(1 << 16)));
    let request = record("request", "application/http", &long);
    let last = record("conversion", "text/plain", "last");
    let text = response("200 OK", "Content-Type: text/plain");
    let home = tempfile::tempdir().expect("a temporary folder");
    let mut cut = config(home.path(), AnyFormat::of_kind("warc").expect("known"), None);
    cut.config.reading.max_document_bytes = 1000;
    let others = [pictures, gone, unreadable, request, last].concat();
    write_all(home.path(), &[("a.warc", &others)]);
    let (texts, complaints) = read(&cut).expect("none of the long ones is a document");
    assert_eq!((texts, complaints.len()), (vec!["last".to_owned()], 2));
    assert!(complaints.iter().all(|complaint| complaint.starts_with("unsupported_type@")), "{complaints:?}");

    write_all(home.path(), &[("a.warc", text + &others)]);
    let error = read(&cut).expect_err("a long document").to_string();
    assert!(error.contains("a.warc:1: a document of more than 1000 bytes"), "{error}");
    cut.config.reading.skip_above_bytes = Some(1000);
    let (texts, complaints) = read(&cut).expect("skipped");
    assert_eq!((texts, complaints.len()), (vec!["last".to_owned()], 3));
    assert_eq!(complaints[0], "too_long@a.warc:1");
}

#[test]
fn text_of_other_encodings_is_decoded_and_its_errors_are_counted() {
    let response = |charset: &str, text: &[u8]| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset={charset}\r\n\r\n");
        let whole = record("response", "application/http", &format!("{head}{}", "?".repeat(text.len()))).into_bytes();
        let at = whole.iter().position(|&byte| byte == b'?').expect("it is there");
        [&whole[..at], text, &whole[at + text.len()..]].concat()
    };
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = store::Store::folder(home.path()).expect("a folder");
    let records = [
        response("iso-8859-1", b"caf\xe9"),
        response("\"GBK\"", b"\xd6\xd0\n\xff\xce\xc4"),
        response("utf-8", b"a\n\nb\xff"),
        response("unknown", b"c"),
    ];
    folder.put("a.warc", &records.concat()).expect("written");
    let found = read(&config(home.path(), AnyFormat::of_kind("warc").expect("known"), None)).expect("readable");
    assert_eq!(found.0, ["caf\u{e9}", "\u{4e2d}\n\u{fffd}\u{6587}", "a\n\nb\u{fffd}"]);
    // The lines are those of the characters, below the headers of the record and of the response.
    assert_eq!(found.1, ["invalid_utf8@a.warc:20", "invalid_utf8@a.warc:32", "unsupported_type@a.warc:34"]);
}

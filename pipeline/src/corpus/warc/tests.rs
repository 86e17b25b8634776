use crate::corpus::AnyFormat;
use crate::corpus::tests::{config, read};
use crate::testing::compressed;

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
        let named = format!("WARC-Target-URI: https://example.org/{text}\r\nContent-Type");
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

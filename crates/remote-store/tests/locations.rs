//! URL forms, and the errors of the others.

use std::io::ErrorKind;

use remote_store::{StoreOptions, existing, is_url, is_web, open, open_with, without_secrets};

fn options() -> StoreOptions {
    let environment = [("AZURE_STORAGE_ACCOUNT_NAME", "account"), ("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")];
    StoreOptions::new(environment.map(|(name, value)| (name.to_owned(), value.to_owned())))
}

#[test]
fn urls_are_told_from_paths() {
    for url in ["s3://b", "gs://b/x", "az://c", "hf://datasets/a/b", "https://h/x", "file:///x", "ftp://h", "S3://b"] {
        assert!(is_url(url), "{url}");
    }
    for path in ["x", "/x", "./s3:/x", "c:/x", "://x", "a b://x", "1s://x", ""] {
        assert!(!is_url(path), "{path}");
    }
}

#[test]
fn locations_are_shown_without_credentials() {
    let shown = [
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("S3://bucket", "s3://bucket"),
        ("s3a://bucket/a", "s3://bucket/a"),
        ("az://container/a", "az://container/a"),
        ("abfss://container@account.dfs.core.windows.net/a", "abfs://container@account.dfs.core.windows.net/a"),
        ("https://user:planted@host:8443/a/b/?sig=planted#planted", "https://host:8443/a/b"),
    ];
    for (location, expected) in shown {
        let store = open_with(location, &options()).expect(location);
        assert_eq!(store.place(""), expected);
        assert_eq!(store.place("c/d"), format!("{expected}/c/d"));
        assert_eq!(store.local(), None);
    }
}

#[test]
fn a_path_and_a_file_url_are_folders() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("new");
    let path = path.to_str().expect("UTF-8");
    assert_eq!(existing(path).expect_err("it is not there").kind(), ErrorKind::NotFound);
    open(path).expect("made").put("x", b"1").expect("put");
    let url = format!("file://{path}");
    for location in [path, &url] {
        let store = existing(location).expect("there");
        assert_eq!(store.get("x").expect("there"), b"1");
        assert_eq!(store.local().map(|local| local.to_str().expect("UTF-8")), Some(path));
    }
}

#[test]
fn other_locations_are_refused_with_the_forms_that_are_supported() {
    let refused = [
        ("ftp://planted:planted@host/x", "s3://BUCKET/PREFIX"),
        ("s3://", "s3://BUCKET/PREFIX"),
        ("s3:///x", "s3://BUCKET/PREFIX"),
        ("s3://planted:planted@bucket/x", "environment variables"),
        ("s3://bucket/x?secret=planted", "environment variables"),
        ("s3://bucket/a//b", "empty part"),
        ("s3://bucket/a/../b", "`..`"),
        ("s3://buc ket/a", "s3://BUCKET/PREFIX"),
        ("abfs://planted:x@account/a", "environment variables"),
        ("hf://models/a/b", "hf://datasets/OWNER/NAME"),
        ("hf://datasets/a", "hf://datasets/OWNER/NAME"),
        ("hf://datasets/a/../b", "hf://datasets/OWNER/NAME"),
        ("hf://datasets/a/b@../x", "hf://datasets/OWNER/NAME"),
        ("http://", "is not a URL"),
    ];
    for (location, expected) in refused {
        let error = open_with(location, &options()).expect_err(location);
        let text = format!("{error} {error:?}");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{location}: {text}");
        assert!(text.contains(expected) && !text.contains("planted"), "{location}: {text}");
    }
}

#[test]
fn secrets_of_a_url_are_left_out() {
    let cases = [
        ("https://host:8443/a/b.txt", "https://host:8443/a/b.txt"),
        ("https://user:SECRET@host/a.txt", "https://host/a.txt"),
        ("HTTPS://host/a.txt?sig=SECRET#SECRET", "https://host/a.txt"),
        ("https://host/a@b.txt", "https://host/a@b.txt"),
        ("https://host?sig=SECRET@SECRET", "https://"),
        ("https://user:SE?CRET@host/a.txt", "https://"),
        ("s3://user:SECRET@bucket/a", "s3://bucket/a"),
        ("s3://bucket/a?.txt", "s3://bucket/a?.txt"),
        ("abfs://container@account/a", "abfs://container@account/a"),
        ("abfs://user:SECRET@account/a", "abfs://account/a"),
        ("hf://datasets/a/b@main/c", "hf://datasets/a/b@main/c"),
        ("a/b?c@d", "a/b?c@d"),
    ];
    for (location, expected) in cases {
        assert_eq!(without_secrets(location), expected, "{location}");
    }
    assert!(is_web("HTTP://host") && is_web("https://host") && !is_web("s3://bucket") && !is_web("http"));
}

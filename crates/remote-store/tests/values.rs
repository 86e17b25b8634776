//! Values of the environment and locations with white space, as secrets of a cluster and files often have.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use remote_store::{StoreOptions, open_with};
use testkit::servers::s3::S3;
use testkit::servers::{azure, http};

use crate::options::options;

/// Returns the options with white space around each value.
fn padded(options: StoreOptions) -> StoreOptions {
    let pad = |(name, value)| (name, format!(" \t{value}\r\n"));
    StoreOptions { environment: options.environment.into_iter().map(pad).collect(), ..options }
}

fn with(options: StoreOptions, variables: &[(&str, &str)]) -> StoreOptions {
    let more = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    StoreOptions { environment: options.environment.into_iter().chain(more).collect(), ..options }
}

#[test]
fn white_space_around_a_value_is_no_part_of_it() {
    let server = S3::start();
    let store = open_with("s3://bucket/runs", &padded(options(&server.address))).expect("opened");
    store.put("x", b"1").expect("put");
    assert_eq!(
        open_with("s3://bucket/runs", &options(&server.address)).expect("opened").get("x").expect("there"),
        b"1"
    );

    let address = azure::serve(BTreeMap::from([("x".to_owned(), b"2".to_vec())]));
    let endpoint = format!("http://{address}");
    // `a2V5` is a key in base 64.
    for credential in [("AZURE_STORAGE_ACCOUNT_KEY", "a2V5"), ("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=b")] {
        let variables = [
            ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
            credential,
            ("AZURE_STORAGE_ENDPOINT", &*endpoint),
            ("AZURE_ALLOW_HTTP", "true"),
        ];
        let store = open_with("az://container", &padded(with(options("localhost"), &variables))).expect("opened");
        assert_eq!(store.get("x").expect("there"), b"2", "{credential:?}");
    }

    let address = http::serve(|request| match request.header("authorization") {
        None => http::Response::of_content(request, b"3")
            .with("etag", "\"tag\"")
            .with("last-modified", testkit::servers::s3::DATE),
        Some(_) => http::Response::new(
            200,
            format!(r#"{{"sha": "{}"}}"#, request.header("authorization") == Some("Bearer token")),
        ),
    });
    let endpoint = format!("http://{address}");
    let variables = [("GOOGLE_SKIP_SIGNATURE", "true"), ("GOOGLE_BASE_URL", &*endpoint), ("GOOGLE_ALLOW_HTTP", "true")];
    let store = open_with("gs://bucket", &padded(with(options("localhost"), &variables))).expect("opened");
    assert_eq!(store.get("x").expect("there"), b"3");

    let variables = [("HF_TOKEN", "token"), ("HF_ENDPOINT", &*endpoint)];
    let error = open_with("hf://datasets/a/b", &padded(with(options("localhost"), &variables))).expect_err("no commit");
    // `true` is no commit, but `e` of `false` is not asked for: the token arrived as it is.
    assert!(error.to_string().contains("names no commit"), "{error}");
}

#[test]
fn a_value_that_no_request_can_hold_is_refused_by_name() {
    let home = tempfile::tempdir().expect("a temporary folder");
    store::Store::folder(home.path()).expect("made").put("token", b"planted-token\n").expect("written");
    let token = home.path().join("token");
    let token = token.to_str().expect("text");
    for (location, name, value) in [
        ("s3://bucket/a", "AWS_SECRET_ACCESS_KEY", "planted\nsecret"),
        ("s3://bucket/a", "AWS_ACCESS_KEY_ID", "planted\u{e9}"),
        ("s3://bucket/a", "AWS_SESSION_TOKEN", "planted\u{7f}"),
        ("s3://bucket/a", "AWS_REGION", "planted\r\nregion"),
        ("s3://bucket/a", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token),
        ("s3://bucket/a", "AWS_WEB_IDENTITY_TOKEN_FILE", token),
        ("az://bucket/a", "AZURE_STORAGE_ACCOUNT_NAME", "planted\nname"),
        ("az://bucket/a", "AZURE_STORAGE_TOKEN", "planted\u{e9}"),
        ("az://bucket/a", "AZURE_FEDERATED_TOKEN_FILE", token),
        ("gs://bucket/a", "GOOGLE_BASE_URL", "http://planted\nhost"),
        ("hf://datasets/a/b", "HF_TOKEN", "planted\ntoken"),
    ] {
        let error = open_with(location, &with(options("localhost"), &[(name, value)])).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name}: {error}");
        let text = error.to_string();
        assert!(text.contains(name) && !text.replace(token, "").contains("planted"), "{text}");
    }
    // A text of several lines, and a variable of another program.
    let others = [("AWS_PROXY_CA_CERTIFICATE", ""), ("AWS_PAGER", "le\nss"), ("AWS_PROFILE", "a")];
    open_with("s3://bucket/a", &with(options("localhost"), &others)).expect("opened");
}

#[test]
fn an_endpoint_without_encryption_names_the_setting_that_allows_it() {
    let account = ("AZURE_STORAGE_ACCOUNT_NAME", "account");
    for (location, endpoint, allow) in [
        ("s3://bucket/a", "AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP"),
        ("s3://bucket/a", "AWS_ENDPOINT", "AWS_ALLOW_HTTP"),
        ("s3://bucket/a", "AWS_ENDPOINT_URL_S3", "AWS_ALLOW_HTTP"),
        ("gs://bucket/a", "GOOGLE_BASE_URL", "GOOGLE_ALLOW_HTTP"),
        ("az://bucket/a", "AZURE_STORAGE_ENDPOINT", "AZURE_ALLOW_HTTP"),
    ] {
        let plain =
            StoreOptions::new([account, (endpoint, "http://localhost:9")].map(|(a, b)| (a.to_owned(), b.to_owned())));
        for refused in [plain.clone(), with(plain.clone(), &[(allow, "false")])] {
            let error = open_with(location, &refused).expect_err(endpoint);
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            assert!(error.to_string().contains(&format!("{endpoint} is `http://`")), "{error}");
            assert!(error.to_string().contains(&format!("set {allow}=true")), "{error}");
        }
        // The way out.
        let options = with(plain, &[(allow, "true"), ("GOOGLE_SKIP_SIGNATURE", "true")]);
        open_with(location, &options).expect(allow);
    }
}

#[test]
fn a_location_with_white_space_at_an_end_is_refused() {
    for location in
        ["s3://bucket/a\n", " s3://bucket/a", "gs://bucket/a ", "http://localhost/a\t", "hf://datasets/a/b\n"]
    {
        assert!(remote_store::is_url(location), "{location:?} is no path");
        let error = open_with(location, &options("localhost")).expect_err(location);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains("white space"), "{error}");
    }
    assert!(!remote_store::is_url(" a/b"), "a path may begin with a space");
}

//! Planted credentials occur in no error, `Debug` output or log record.

use std::collections::BTreeMap;

use remote_store::{StoreOptions, open_with};

use testkit::LogRecords;
use testkit::servers::http::{Response, serve};

/// Environment with a planted value for every credential.
fn environment(address: &str) -> BTreeMap<String, String> {
    let variables = [
        ("AWS_ACCESS_KEY_ID", "planted-aws-id"),
        ("AWS_SECRET_ACCESS_KEY", "planted-aws-key"),
        ("AWS_SESSION_TOKEN", "planted-aws-token"),
        ("AWS_ENDPOINT_URL", &format!("http://{address}")),
        ("AWS_ALLOW_HTTP", "true"),
        ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
        ("AZURE_STORAGE_SAS_TOKEN", "sv=2026&sig=planted-azure-sas"),
        ("AZURE_STORAGE_ENDPOINT", &format!("http://{address}")),
        ("AZURE_ALLOW_HTTP", "true"),
        ("GOOGLE_SERVICE_ACCOUNT_KEY", r#"{"private_key": "planted-google-key", "private_key_id": "planted-id"}"#),
        ("HF_TOKEN", "planted-hub-token"),
        ("HF_ENDPOINT", &format!("http://{address}")),
    ];
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

#[test]
fn credentials_occur_in_no_output() {
    let records = LogRecords::default();
    let writer = records.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::TRACE);
    let subscriber = subscriber.with_writer(move || writer.clone()).finish();
    // For all threads: requests run on those of the runtime.
    let is_set = tracing_subscriber::util::SubscriberInitExt::try_init(subscriber).is_ok();
    assert!(is_set, "another test records the log");

    let mut outputs = String::new();
    for status in [400, 401, 403, 404, 409, 412, 416, 500, 301] {
        // A server that repeats what it received.
        let address = serve(move |request| {
            let seen = format!("{}?{} {:?}", request.path, request.query, request.header("authorization"));
            Response::new(status, format!("<Error><Code>{seen}</Code><Message>{seen}</Message></Error>"))
                .with("location", format!("/{}?{}", request.path, request.query))
        });
        let mut options = StoreOptions { environment: environment(&address), ..StoreOptions::from_env() };
        options.retries.attempts_max = 1;
        outputs += &format!("{options:?}\n");
        let web = format!("http://planted-user:planted-password@{address}/x?sig=planted-signature");
        for location in ["s3://bucket/x", "az://container/x", "gs://bucket/x", "hf://datasets/a/b", &web] {
            let store = match open_with(location, &options) {
                Ok(store) => store,
                Err(error) => {
                    outputs += &format!("{error} {error:?}\n");
                    continue;
                }
            };
            outputs += &format!("{store:?} {} {}\n", store.place(""), store.place("y"));
            let version = store::Version::new("planted");
            let outcomes = [
                store.get("y").map(drop),
                store.get_range("y", 0..2).map(drop),
                store.head("y").map(drop),
                store.list("").map(drop),
                store.put("y", b"1").map(drop),
                store.put("y", &vec![1; 9 << 20]).map(drop),
                store.put_if_absent("y", b"1").map(drop),
                store.put_if_version("y", b"1", &version).map(drop),
                store.delete("y"),
            ];
            for error in outcomes.into_iter().filter_map(Result::err) {
                outputs += &format!("{error} {error:?}\n");
            }
        }
    }
    let found: Vec<_> = outputs.lines().filter(|line| line.contains("planted")).collect();
    assert!(found.is_empty(), "{found:#?}");
    assert!(outputs.lines().count() > 200, "the outputs are too few:\n{outputs}");
    let log = records.text();
    let found: Vec<_> = log.lines().filter(|line| line.contains("planted")).collect();
    assert!(found.is_empty(), "{found:#?}");
}

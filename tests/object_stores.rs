//! Preparations and trainings on object stores, against servers on the loopback interface.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use remote_store::{StoreOptions, open_with};
use store::{Holder, LeaseConfig, Lock};
use testkit::servers::azure;
use testkit::servers::http::{Delivery, Response, serve};
use testkit::servers::s3::{self, Fault, S3};
use testkit::{Home, Outcome, Running, files};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Splits the corpus into several parts.
const PARTS: [&str; 2] = ["--set", "prepare.part_bytes=2000"];

type Objects = BTreeMap<String, Vec<u8>>;

/// Environment of a program.
pub(crate) type Variables = BTreeMap<String, String>;

fn variables<const N: usize>(pairs: [(&str, String); N]) -> Variables {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(crate) fn s3_variables(server: &S3) -> Variables {
    s3::environment(&server.address)
}

fn with_variables(mut command: Command, variables: &Variables) -> Command {
    command.envs(variables);
    command
}

pub(crate) fn run(home: &Home, args: &[&str], variables: &Variables) -> Outcome {
    Outcome::new(with_variables(home.command(args), variables).output().expect("the program starts"))
}

#[track_caller]
pub(crate) fn run_ok(home: &Home, args: &[&str], variables: &Variables) -> Outcome {
    let outcome = run(home, args, variables);
    assert_eq!(outcome.code, Some(0), "cloze {args:?}\n{outcome}");
    outcome
}

/// Starts a program whose output is read while it runs.
pub(crate) fn start(home: &Home, args: &[&str], variables: &Variables) -> Running {
    let mut command = with_variables(home.command(args), variables);
    Running::new(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts"))
}

/// Returns a folder with a corpus, a tokenizer and the dataset of several parts that the tests compare with.
pub(crate) fn prepared() -> Home {
    let home = Home::with_corpus(60);
    home.run_ok(&["tokenizer", "train"]);
    home.run_ok(&[&["prepare"], &PARTS[..]].concat());
    home
}

/// Corpus as objects below `corpus/`.
fn corpus(home: &Home) -> Objects {
    files(&home.join("corpus")).into_iter().map(|(name, bytes)| (format!("corpus/{name}"), bytes)).collect()
}

fn prepare_args<'a>(inputs: &'a str, folder: &'a str) -> Vec<&'a str> {
    [&["prepare", "--set", inputs, "--set", folder], &PARTS[..]].concat()
}

/// Objects of a prepared folder in a bucket, except those that contain a process or a time.
fn data(server: &S3) -> Objects {
    let state = server.state();
    let named = state.objects.iter().filter_map(|(key, bytes)| Some((key.strip_prefix("data/")?, bytes)));
    let kept = named.filter(|(name, _)| !["lock", "fingerprints.json"].contains(name));
    kept.map(|(name, bytes)| (name.to_owned(), bytes.clone())).collect()
}

#[track_caller]
fn assert_same(found: &Objects, expected: &Objects) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    let differ: Vec<_> =
        expected.iter().filter(|(name, bytes)| found[*name] != **bytes).map(|(name, _)| name).collect();
    assert!(differ.is_empty(), "{differ:?}");
}

/// Starts a server in the manner of the Hub with the files of one dataset.
fn serve_dataset(files: Objects) -> String {
    serve(move |request| {
        let below = |start: &str| request.path.strip_prefix(start).map(str::to_owned);
        if below("/api/datasets/owner/data/revision/main").is_some() {
            return Response::new(200, format!(r#"{{"sha": "{COMMIT}"}}"#));
        }
        if below(&format!("/api/datasets/owner/data/tree/{COMMIT}")).is_some() {
            let node = |(path, bytes): (&String, &Vec<u8>)| {
                let oid = blake3::hash(bytes).to_hex();
                format!(r#"{{"type": "file", "oid": "{oid}", "size": {}, "path": "{path}"}}"#, bytes.len())
            };
            let nodes: Vec<String> = files.iter().map(node).collect();
            return Response::new(200, format!("[{}]", nodes.join(",")));
        }
        let name = below(&format!("/datasets/owner/data/resolve/{COMMIT}/")).unwrap_or_default();
        match files.get(&name) {
            Some(bytes) => {
                Response::of_content(request, bytes).with("etag", format!("\"{}\"", blake3::hash(bytes).to_hex()))
            }
            None => Response::new(404, "").with("x-error-code", "EntryNotFound"),
        }
    })
}

#[test]
fn inputs_of_every_store_give_the_bytes_of_a_folder() {
    let home = prepared();
    let expected = files(&home.join("data"));
    let google = S3::start();
    google.state().objects = corpus(&home);
    let s3 = S3::start();
    s3.state().objects = corpus(&home);
    let azure = azure::serve(corpus(&home));
    let hub = serve_dataset(corpus(&home));
    let served = corpus(&home);
    let web = serve(move |request| match served.get(request.path.trim_start_matches("/my%20")) {
        Some(bytes) => Response::of_content(request, bytes).with("etag", "\"1\""),
        None => Response::new(404, ""),
    });
    let named: Vec<String> = (0..4).map(|part| format!("\"http://{web}/my%20corpus/{part}.txt\"")).collect();
    let cases = [
        ("s3", "\"s3://bucket/corpus/\"".to_owned(), s3_variables(&s3)),
        (
            "gs",
            "\"gs://bucket/corpus/\"".to_owned(),
            variables([
                ("GOOGLE_BASE_URL", format!("http://{}", google.address)),
                ("GOOGLE_ALLOW_HTTP", "true".to_owned()),
                ("GOOGLE_SKIP_SIGNATURE", "true".to_owned()),
            ]),
        ),
        (
            "az",
            "\"az://container/corpus/\"".to_owned(),
            variables([
                ("AZURE_STORAGE_ACCOUNT_NAME", "account".to_owned()),
                ("AZURE_STORAGE_ENDPOINT", format!("http://{azure}")),
                ("AZURE_ALLOW_HTTP", "true".to_owned()),
                ("AZURE_SKIP_SIGNATURE", "true".to_owned()),
            ]),
        ),
        (
            "hf",
            "\"hf://datasets/owner/data/corpus/*.txt\"".to_owned(),
            variables([("HF_ENDPOINT", format!("http://{hub}"))]),
        ),
        ("http", named.join(","), Variables::new()),
    ];
    for (scheme, inputs, variables) in cases {
        let inputs = format!("prepare.inputs=[{inputs}]");
        let folder = format!("prepare.folder=from-{scheme}");
        run_ok(&home, &prepare_args(&inputs, &folder), &variables);
        assert_same(&files(&home.join(&format!("from-{scheme}"))), &expected);
    }
}

/// Requests that change an object below `data/`, as `PUT data/manifest.json`, without those of the lock.
fn changes(server: &S3) -> Vec<String> {
    let state = server.state();
    let changes = state.requests.iter().filter(|request| !request.starts_with("GET") && !request.starts_with("HEAD"));
    let named = changes.map(|request| request.trim_end_matches('?').replacen(" /bucket/", " ", 1));
    named.filter(|request| request.contains(" data/") && !request.ends_with("/lock")).collect()
}

/// Records come after their shards, the manifest after all records, and each change has at most one check of the lock.
#[test]
fn a_prepared_folder_is_written_in_order() {
    let home = prepared();
    let server = S3::start();
    server.state().objects = corpus(&home);
    let args = prepare_args("prepare.inputs=[\"s3://bucket/corpus/\"]", "prepare.folder=s3://bucket/data");
    run_ok(&home, &args, &s3_variables(&server));
    let written = data(&server);
    assert_same(&written, &files(&home.join("data")));

    let changes = changes(&server);
    let last = |name: &str| changes.iter().rposition(|change| change == &format!("PUT data/{name}"));
    let manifest = last("manifest.json").expect("written");
    let mut records = 0;
    for (name, bytes) in written.iter().filter(|(name, _)| name.starts_with("parts/")) {
        let sealed: serde_json::Value = serde_json::from_slice(bytes).expect("JSON");
        let record = &sealed["content"];
        let lists = ["train", "valid"].map(|split| record[split].as_array().expect("a list").clone());
        let objects = lists.concat().into_iter().chain([record["documents"].clone()]);
        let paths: Vec<String> = objects.filter_map(|object| object["path"].as_str().map(str::to_owned)).collect();
        assert!(paths.len() >= 2, "{record}");
        let committed = last(name);
        assert!(committed < Some(manifest), "{name} after the manifest: {changes:#?}");
        for path in paths {
            assert!(last(&path).is_some() && last(&path) < committed, "{path} after {name}: {changes:#?}");
        }
        records += 1;
    }
    assert!(records >= 4, "{records} parts");
    let checks = server.state().requests.iter().filter(|request| *request == "HEAD /bucket/data/lock?").count();
    // One more for the sweep, which takes no request here.
    assert!((1..=changes.len() + 1).contains(&checks), "{checks} checks of {} changes", changes.len());
}

/// A long Parquet file is not read from its beginning to check it.
#[test]
fn the_head_of_a_long_parquet_object_is_not_fetched() {
    let home = Home::with_corpus(60);
    home.run_ok(&["tokenizer", "train"]);
    let text = |index: usize| format!("the word {} ", blake3::hash(&index.to_le_bytes()).to_hex()).repeat(10);
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..1000).map(text)));
    let batch = RecordBatch::try_from_iter([("text", texts)]).expect("one column");
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).expect("in memory");
    writer.write(&batch).expect("in memory");
    writer.close().expect("in memory");
    assert!(bytes.len() > 400_000, "{} bytes", bytes.len());

    let ranges: Arc<Mutex<Vec<(usize, usize)>>> = Arc::default();
    let log = Arc::clone(&ranges);
    let server = S3::start_with(move |request| {
        log.lock().expect("no panic").extend(request.range());
    });
    server.state().objects.insert("a.parquet".to_owned(), bytes.clone());
    let set = ["--set", "prepare.inputs=[\"s3://bucket/a.parquet\"]", "--set", "prepare.format=parquet"];
    run_ok(&home, &[&["prepare"], &set[..]].concat(), &s3_variables(&server));
    let ranges = ranges.lock().expect("no panic").clone();
    assert_eq!(ranges[0], (0, 63), "the name of the file is checked: {ranges:?}");
    assert_eq!(ranges[1].1, bytes.len() - 1, "its end is next: {ranges:?}");
    assert!(ranges[1].0 >= bytes.len() - (64 << 10), "{ranges:?}");
}

/// Processes on a store make the parts by leases. The part of a dead process is taken over, that of a live one is not.
#[test]
fn parts_are_leased_on_a_store() {
    let home = prepared();
    let expected = files(&home.join("data"));
    let server = S3::start();
    let variables = s3_variables(&server);
    let verb = |words: &[&'static str]| {
        let set = ["--set", "prepare.folder=s3://bucket/data"];
        [&["prepare"], words, &set, &PARTS[..]].concat()
    };
    run_ok(&home, &verb(&["plan"]), &variables);
    let parts = expected.keys().filter(|name| name.starts_with("parts/")).count();
    assert!(parts >= 4, "{parts} parts");

    let store = open_with("s3://bucket/data", &StoreOptions::new(s3_variables(&server))).expect("opened");
    let heartbeat_interval = Duration::from_millis(50);
    let terms = LeaseConfig { heartbeat_interval, takeover_delay: Duration::from_secs(60) };
    let alive = Lock::acquire(&store, "leases/part-00001", Holder::this_process(), terms).expect("free");
    // A lease that is not renewed, of a process on another machine.
    let lease = store.get("leases/part-00001").expect("there");
    let mut lease: serde_json::Value = serde_json::from_slice(&lease).expect("JSON");
    lease["holder"]["host"] = "elsewhere".into();
    lease["holder"]["nonce"] = "another".into();
    lease["takeover_delay_ms"] = 0.into();
    store.put("leases/part-00002", lease.to_string().as_bytes()).expect("put");

    let records = || server.state().objects.keys().filter(|key| key.starts_with("data/parts/")).count();
    let run = verb(&["run", "--lease-timeout", "1"]);
    thread::scope(|scope| {
        let processes = [(); 2].map(|()| scope.spawn(|| run_ok(&home, &run, &variables)));
        while records() < parts - 1 {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(processes.iter().all(|process| !process.is_finished()), "part 1 is leased");
        drop(alive);
        for process in processes {
            process.join().expect("no panic");
        }
    });
    run_ok(&home, &verb(&["finalize"]), &variables);
    assert_same(&data(&server), &expected);
    assert!(server.state().objects.keys().all(|key| !key.contains("/leases/")), "the leases are removed");
}

/// A mistake, found before anything is read: the length would be divided into millions of parts.
#[test]
fn a_length_that_no_file_has_is_refused() {
    let home = prepared();
    let address = serve(|_| Response { delivery: Delivery::Claims(1 << 62), ..Response::new(200, "one line\n") });
    let inputs = format!("prepare.inputs=[\"http://{address}/a.txt\"]");
    let folders = ["--set", "prepare.folder=\"claimed\"", "--set", "data.folder=\"claimed\""];
    let expected = "a.txt: it claims 4611686018427387904 bytes, which no file has";
    for command in [&["prepare", "--dry-run"][..], &["prepare"]] {
        home.run(&[command, &["--set", &inputs], &folders].concat()).assert_fails(2, &[expected]);
    }
    let plan = home.run_ok(&[&["plan", "--set", &inputs], &folders[..]].concat());
    assert!(plan.stdout.contains(expected), "{plan}");
}

#[test]
fn a_web_server_without_ranges_is_a_mistake_with_a_way_out() {
    let home = prepared();
    let text = "a line of text\n".repeat(1000);
    let address = serve(move |_| Response::new(200, text.clone()).with("last-modified", s3::DATE));
    let inputs = format!("prepare.inputs=[\"http://{address}/a.txt\"]");
    let outcome = home.run(&prepare_args(&inputs, "prepare.folder=\"without-ranges\""));
    outcome.assert_fails(2, &["the server ignores byte ranges; download the file"]);
}

/// `cloze init` names what keeps it from listing a store, and each named way leads out.
#[test]
fn a_first_file_for_a_store_names_missing_settings() {
    let home = prepared();
    let server = S3::start();
    server.state().objects = corpus(&home);
    let init = |variables: &Variables| run(&home, &["init", "s3://bucket/corpus/", "--out", "store.toml"], variables);
    let good = s3_variables(&server);
    let without = |name: &str| good.clone().into_iter().filter(|(known, _)| known != name).collect::<Variables>();
    init(&without("AWS_ALLOW_HTTP")).assert_fails(2, &["AWS_ENDPOINT_URL is `http://`", "set AWS_ALLOW_HTTP=true"]);
    let mut refused = good.clone();
    refused.insert("AWS_ENDPOINT_URL".to_owned(), "http://127.0.0.1:1".to_owned());
    init(&refused).assert_fails(2, &["Connection refused", "check the address, the endpoint in the environment"]);
    server.set_faults(|_| Some(Fault::Status(403)));
    init(&good).assert_fails(2, &["the server answered 403", "check the credentials in the environment"]);
    server.set_faults(|_| None);
    let outcome = init(&good);
    assert_eq!(outcome.code, Some(0), "{outcome}");
}

/// A scheduler tries again after 1, and not after 2.
#[test]
fn an_unreachable_store_is_no_mistake_of_the_configuration() {
    let home = prepared();
    // Nothing listens on port 1.
    let s3 = variables([
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1".to_owned()),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_ACCESS_KEY_ID", "a".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "b".to_owned()),
    ]);
    for inputs in ["http://127.0.0.1:1/a.txt", "s3://bucket/corpus/"] {
        let named = format!("prepare.inputs=[\"{inputs}\"]");
        let folder = "prepare.folder=\"unreachable\"";
        let outcome = run(&home, &prepare_args(&named, folder), &s3);
        assert_eq!(outcome.code, Some(1), "{inputs}: {outcome}");
        assert!(outcome.stderr.contains("run the same command again"), "{inputs}: {outcome}");
        assert!(!outcome.stderr.contains("check `prepare.inputs`"), "{inputs}: {outcome}");
        assert_eq!(
            outcome.stderr.matches("127.0.0.1:1/a.txt").count(),
            usize::from(inputs.contains("a.txt")),
            "{outcome}"
        );
    }
}

//! Reads the real files of every task, if the folder `shared/data` next to the repository has them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tasks::example::{Gold, TaskOutput};
use tasks::layout::{ExampleColumns, FileLayout, GoldColumns, TableFormat, TableLayout, WidthPolicy};
use tasks::read::ReadCounts;
use tasks::task::SetPurpose;
use tasks::{AnyTask, ExampleReader};

/// Rows by task and set: the lines of the files without the header, with a last line that has no end.
const ROWS: &[(&str, &str, u64)] = &[
    ("cola", "train", 8551),
    ("cola", "dev", 1043),
    ("cola", "test", 1063),
    ("sst2", "train", 67349),
    ("sst2", "dev", 872),
    ("sst2", "test", 1821),
    // One less than in the release: the file has 3,668 lines with its header.
    ("mrpc", "train", 3667),
    ("mrpc", "dev", 408),
    ("mrpc", "test", 1725),
    ("stsb", "train", 5749),
    ("stsb", "dev", 1500),
    ("stsb", "test", 1379),
    ("qnli", "dev", 5463),
    ("qnli", "test", 5463),
    ("rte", "train", 2490),
    ("rte", "dev", 277),
    ("rte", "test", 3000),
    ("wnli", "train", 635),
    ("wnli", "dev", 71),
    ("wnli", "test", 146),
    ("ax", "test", 1104),
    ("squad", "dev", 10570),
    ("citation_intent", "train", 1688),
    ("citation_intent", "dev", 114),
    ("citation_intent", "test", 139),
    ("sciie", "train", 3219),
    ("sciie", "dev", 455),
    ("sciie", "test", 974),
    ("scicite", "train", 7320),
    ("scicite", "dev", 916),
    ("scicite", "test", 1861),
    ("chemprot", "train", 4169),
    ("chemprot", "dev", 2427),
    ("chemprot", "test", 3469),
    ("ag_news", "train", 5600),
    ("ag_news", "dev", 1000),
    ("ag_news", "test", 1000),
    ("hyperpartisan_news", "train", 515),
    ("hyperpartisan_news", "dev", 65),
    ("hyperpartisan_news", "test", 65),
];

/// Returns the folder, unless it is missing.
fn shared_data() -> Option<PathBuf> {
    let folder = testkit::root().join("../shared/data");
    folder.is_dir().then_some(folder)
}

#[test]
fn every_row_of_the_real_files_is_an_example() {
    let Some(folder) = shared_data() else {
        return testkit::skip("real files of fine-tuning tasks: ../shared/data is missing");
    };
    let mut found = BTreeMap::new();
    for task in AnyTask::examples() {
        let folders = ["glue", "domain", ""].map(|family| folder.join(family).join(task.folder()));
        let home = folders.into_iter().find(|folder| !task.folder().is_empty() && folder.is_dir());
        for set in task.sets() {
            let Some(path) = home.as_ref().map(|home| home.join(&set.file)).filter(|path| path.is_file()) else {
                continue;
            };
            let mut reader = ExampleReader::open(&path, &set.layout, &task.output()).expect("it exists");
            for read in reader.by_ref() {
                let example = read.unwrap_or_else(|error| panic!("{error}"));
                assert!(!example.first.is_empty(), "{}:{}", path.display(), example.line);
                // QQP is not here. SQuAD 1.1 has an answer to each question.
                assert_eq!(example.gold == Gold::None, set.submission.is_some(), "{}", path.display());
            }
            let counts = reader.counts();
            assert_eq!((counts.invalid, counts.dropped, counts.blank), (0, 0, 0), "{}", path.display());
            found.insert((task.kind(), set.name.clone()), counts.examples);
        }
    }
    let expected = ROWS.iter().map(|(task, set, rows)| ((*task, (*set).to_owned()), *rows));
    assert_eq!(found, expected.collect());
    check_squad(&folder);
    check_pandas_view(&folder);
}

/// Half of SQuAD 2.0 and the compressed files of `xquad` have other names than the official files.
fn check_squad(folder: &std::path::Path) {
    let read = |file: &str, allows_none| {
        let path = folder.join("squad").join(file);
        let output = TaskOutput::Spans { allows_none };
        let reader = ExampleReader::open(&path, &FileLayout::SquadJson, &output).expect("it exists");
        let mut unanswerable = 0;
        let mut questions = 0;
        for example in reader {
            let example = example.unwrap_or_else(|error| panic!("{error}"));
            questions += 1;
            unanswerable += u64::from(example.gold == Gold::Answers(Vec::new()));
        }
        (questions, unanswerable)
    };
    assert_eq!(read("dev-v2.0-cs224n-half.json", true), (6078, 3168));
    for language in ["ar", "de", "en", "ru", "th", "zh"] {
        assert_eq!(read(&format!("xquad/xquad.{language}.json.gz"), false), (1190, 0), "{language}");
    }
}

/// A reader with quoting joins lines of MRPC: the trap that the unquoted dialect avoids.
fn check_pandas_view(folder: &std::path::Path) {
    let columns = ExampleColumns {
        id: None,
        first: "#1 String".into(),
        second: Some("#2 String".into()),
        gold: GoldColumns::Label("Quality".into()),
    };
    let layout = TableLayout { format: TableFormat::QuotedTsv, has_header: true, columns, width: WidthPolicy::Drop };
    let labels = ["0", "1"].map(str::to_owned).to_vec();
    let path = folder.join("glue/MRPC/train.tsv");
    let mut reader = ExampleReader::open(&path, &FileLayout::Table(layout), &TaskOutput::Class { labels });
    let reader = reader.as_mut().expect("it exists");
    reader.by_ref().for_each(drop);
    let ReadCounts { examples, .. } = reader.counts();
    assert!(examples < 3667, "{examples} rows with quoting");
    let train = AnyTask::of_kind("mrpc").expect("registered").sets();
    assert!(train.iter().any(|set| set.purpose == SetPurpose::Train));
}

//! Allocations per document: none, once buffers have their size.

use super::*;
use crate::prepare::job::PrepareJob;
use crate::prepare::part::PartResult;

/// Number of documents of the smaller corpus.
const DOCUMENTS: usize = 4000;

/// Counts the allocations of the worker that prepares a corpus with this many documents.
fn requests(format_name: &str, pack: &str, documents: usize) -> u64 {
    let home = tempfile::tempdir().expect("a temporary folder");
    let sentences = ["The cat sat on the mat.", "It's a mat, a cat, 1 hat.", "Cats sat; the mats sat."];
    let text = |index: usize| (0..=index % 5).map(|more| sentences[(index + more) % 3]).collect::<Vec<_>>().join(" ");
    let document = |index: usize| match format_name {
        "jsonl" => format!("{{\"key\": {index}, \"text\": \"{}\"}}\n", text(index)),
        "text_paragraphs" => format!("{}\r\n{}\r\n\r\n", text(index), text(index + 1)),
        _ => format!("{}\n", text(index)),
    };
    write_all(home.path(), &[("in.txt", (0..documents).map(document).collect::<String>())]);
    write_all(home.path(), &[("vocab.txt", testing::VOCAB.join("\n"))]);
    let config = PrepareConfig {
        inputs: vec![home.path().join("in.txt").display().to_string()],
        format: format(format_name),
        id_field: (format_name == "jsonl").then(|| "key".to_owned()),
        tokenizer: home.path().join("vocab.txt"),
        lowercase: Some(true),
        folder: home.path().join("data"),
        max_seq_len: 64,
        packing: packing(pack),
        part_bytes: Some(1 << 30),
        ..PrepareConfig::default()
    };
    let planned = Planned::new(&config, None).expect("a plan");
    let tasks = in_order(&planned.coming());
    let progress = Progress::new(tasks.iter().map(|task| &task.part));
    let store = Store::folder(&config.folder).expect("a folder");
    let Planned { config, corpus, tools, settings, .. } = planned;
    let options = PrepareOptions::default();
    let store = Some(store);
    let work = PrepareJob::new(config, corpus, tools, settings.digest(), tasks, options, store, PartAccess::Make);
    let work = work.expect("listed");
    // Use up the compared sample first: the reference tokenizer allocates.
    while work.sample.select(sentences[0]).is_some() {}
    let (_stopper, stop) = runtime::cancel_pair();
    let make = || {
        let part = part::process(&work, &work.tasks[0], &progress, &stop).expect("made").expect("not stopped");
        let result = part.finish(&work.tasks[0], &progress).expect("committed");
        let PartResult::Done(outcome) = result else { panic!("it is made") };
        assert_eq!(outcome.done().documents, documents as u64);
    };
    ::fuzz::memory::requests(make)
}

#[test]
fn a_document_costs_no_allocation() {
    let check = |format: &str, pack: &str| {
        let [once, twice] = [DOCUMENTS, 2 * DOCUMENTS].map(|documents| requests(format, pack, documents));
        let more = twice.saturating_sub(once);
        // Row groups still allocate: about 300 times for 2048 rows.
        assert!(more < DOCUMENTS as u64 / 4, "{format}, {pack}: {more} for {DOCUMENTS} documents more, {once} before");
    };
    for format in ["text_lines", "text_paragraphs", "jsonl"] {
        check(format, "block");
    }
    for pack in ["document", "taco", "sentences"] {
        check("text_lines", pack);
    }
}

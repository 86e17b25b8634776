//! Cost of signatures, verdicts and decontamination on the lines of a text file, one document per line, on one core.
//!
//! `cargo run --release -p cloze-duplicates --example bench_duplicates -- FILE [TEST_FILE]`. The file is in memory
//! before a clock starts. Each time is the best of three. `TEST_FILE` gives the runs of 13 words to look up.

#![expect(clippy::print_stdout, reason = "its result")]

use std::convert::Infallible;
use std::hint::black_box;
use std::time::Instant;

use duplicates::{Columns, FoldMemory, FoldPlan, NearOptions, Normalizer, RunIndexBuilder, Signer, fold};

struct Signatures {
    exact: Vec<u128>,
    bands: Vec<u64>,
    width: usize,
}

impl Columns for Signatures {
    type Error = Infallible;

    fn exact(&mut self, visit: &mut dyn FnMut(u32, u128)) -> Result<(), Infallible> {
        (0..).zip(&self.exact).for_each(|(document, hash)| visit(document, *hash));
        Ok(())
    }

    fn band(&mut self, band: usize, visit: &mut dyn FnMut(u32, u64)) -> Result<(), Infallible> {
        (0..).zip(self.bands.chunks(self.width)).for_each(|(document, bands)| visit(document, bands[band]));
        Ok(())
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().expect("a text file");
    let text = std::fs::read_to_string(&file).expect("readable UTF-8");
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let bytes = lines.iter().map(|line| line.len()).sum::<usize>() as f64;
    let documents = u32::try_from(lines.len()).expect("fewer than 2^32 lines");
    println!("{file}: {documents} documents, {:.1} MB of text", bytes / 1e6);
    let per_second = |what: &str, seconds: f64| println!("{what:<44} {:>8.1} MB/s", bytes / seconds / 1e6);

    let mut normalizer = Normalizer::default();
    per_second(
        "normalization",
        best(|| lines.iter().map(|line| normalizer.normalize(line).words.len()).sum::<usize>()),
    );
    let mut exact = Signer::new(None);
    per_second("exact signatures", best(|| lines.iter().map(|line| exact.sign(line).exact).fold(0, |a, b| a ^ b)));
    let near = NearOptions::default();
    let mut signer = Signer::new(Some(near));
    let what = format!("signatures, {} bands of {} rows, {} words", near.bands, near.rows, near.shingle_words);
    per_second(&what, best(|| lines.iter().map(|line| signer.sign(line).bands[0]).fold(0, |a, b| a ^ b)));

    let mut signatures = Signatures { exact: Vec::new(), bands: Vec::new(), width: near.bands };
    for line in &lines {
        let signature = signer.sign(line);
        signatures.exact.push(signature.exact);
        signatures.bands.extend_from_slice(signature.bands);
    }
    let plan = FoldPlan { documents, settled: 0, bands: near.bands, max_bytes: 1 << 30, keeps_partners: false };
    let seconds = best(|| fold(&plan, &duplicates::BitSet::default(), &mut signatures));
    let Ok(verdicts) = fold(&plan, &duplicates::BitSet::default(), &mut signatures);
    let memory = FoldMemory::new(u64::from(documents), plan.max_bytes, false);
    println!(
        "verdicts: {} exact and {} near duplicates, {seconds:.2} s ({:.2} s per million documents), {:.1} MB of memory ({:.1} per million)",
        verdicts.exact.count(),
        verdicts.near.count(),
        seconds * 1e6 / f64::from(documents),
        memory.bytes() as f64 / 1e6,
        memory.bytes() as f64 / f64::from(documents),
    );

    let Some(file) = arguments.next() else { return };
    let test_set = std::fs::read_to_string(file).expect("readable UTF-8");
    let mut builder = RunIndexBuilder::new(13);
    for line in test_set.lines() {
        builder.add(0, normalizer.normalize(line));
    }
    let index = builder.build();
    println!("index: {} runs of 13 words", index.len());
    let find = |normalizer: &mut Normalizer| -> usize {
        lines.iter().map(|line| index.find(normalizer.normalize(line)).count()).sum()
    };
    per_second("decontamination", best(|| find(&mut normalizer)));
    println!("{} shared runs", find(&mut normalizer));
}

/// Best time of three calls, in seconds.
fn best<T>(mut work: impl FnMut() -> T) -> f64 {
    let once = || {
        let began = Instant::now();
        black_box(work());
        began.elapsed().as_secs_f64()
    };
    std::iter::repeat_with(once).take(3).fold(f64::INFINITY, f64::min)
}

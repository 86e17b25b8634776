//! Text in a file to ids in a buffer: what `scripts/bench-tokenize` holds against others that do the same.
//!
//! ```text
//! bench_tokenize json TOKENIZER                      the tokenizer as a `tokenizer.json`, on standard output
//! bench_tokenize ids FILE TOKENIZER                  the ids, 4 bytes each, on standard output
//! bench_tokenize run FILE TOKENIZER [THREADS] [PASSES]   the seconds of each pass, the first of them cold
//! ```
//!
//! TOKENIZER is as `prepare.tokenizer` has it; a `vocab.txt` is taken for one of lowercased text. `WAY=crate` has the
//! `tokenizers` crate encode. Documents end at blank lines. A pass reads the file, checks that it is UTF-8, and encodes all
//! documents into buffers that stay for the next pass; its threads take a megabyte in turn.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::env;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use memchr::memmem;
use pipeline::tokenize::{self, HfTokenizer, Tokenizer as _};
use pipeline::{Error, Result};

/// Bytes that a thread takes at a time, up to the next end of a document.
const TURN_BYTES: usize = 1 << 20;

const DOCUMENT_END: &[u8] = b"\n\n";

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["json", tokenizer] => put(&loaded(tokenizer)?.facts().json),
        ["ids", file, tokenizer] => {
            let (tokenizer, mut room) = (loaded(tokenizer)?, Room::default());
            room.pass(file, &tokenizer, 1)?;
            room.turns.iter().try_for_each(|ids| put(&bytes(&lock(ids))))
        }
        ["run", file, tokenizer, rest @ ..] if rest.len() <= 2 => {
            run(file, &loaded(tokenizer)?, number(rest, 0, 1)?, number(rest, 1, 5)?)
        }
        _ => Err(Error::Config("usage: bench_tokenize json|ids|run [FILE] TOKENIZER [THREADS [PASSES]]".into())),
    }
}

fn number(arguments: &[&str], place: usize, default: usize) -> Result<usize> {
    let Some(text) = arguments.get(place) else { return Ok(default) };
    text.parse().map_err(|_| Error::Config(format!("`{text}` is not a whole number")))
}

fn loaded(tokenizer: &str) -> Result<HfTokenizer> {
    let path = Path::new(tokenizer);
    let is_list = path.join("vocab.txt").is_file() || path.extension().is_some_and(|extension| extension == "txt");
    let tokenizer = tokenize::load(path, is_list.then_some(true))?;
    Ok(if env::var("WAY").is_ok_and(|way| way == "crate") { tokenizer.by_crate() } else { tokenizer })
}

/// Prints a line `pass SECONDS` for each pass, then what was done in each.
fn run(file: &str, tokenizer: &HfTokenizer, threads: usize, passes: usize) -> Result<()> {
    let mut room = Room::default();
    for _ in 0..passes {
        let clock = Instant::now();
        room.pass(file, tokenizer, threads)?;
        println!("pass {:.6}", clock.elapsed().as_secs_f64());
    }
    let tokens: usize = room.turns.iter().map(|ids| lock(ids).len()).sum();
    println!("tokens {tokens} bytes {} way {}", room.text.len(), tokenizer.way());
    Ok(())
}

/// What a pass leaves for the next one.
#[derive(Default)]
struct Room {
    text: Vec<u8>,
    /// The ids of each turn.
    turns: Vec<Mutex<Vec<u32>>>,
}

impl Room {
    fn pass(&mut self, file: &str, tokenizer: &HfTokenizer, threads: usize) -> Result<()> {
        let unreadable = |error: &dyn std::fmt::Display| Error::Config(format!("{file}: {error}"));
        self.text.clear();
        let mut source = File::open(file).map_err(|error| unreadable(&error))?;
        source.read_to_end(&mut self.text).map_err(|error| unreadable(&error))?;
        let text = std::str::from_utf8(&self.text).map_err(|error| unreadable(&error))?;
        let ends = turn_ends(text);
        self.turns.resize_with(ends.len(), Mutex::default);
        let (next, turns) = (AtomicUsize::new(0), &self.turns);
        let work = || -> Result<()> {
            loop {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                let Some(&end) = ends.get(turn) else { return Ok(()) };
                let begin = turn.checked_sub(1).map_or(0, |before| ends[before]);
                let mut ids = lock(&turns[turn]);
                ids.clear();
                encode(&text[begin..end], tokenizer, &mut ids)?;
            }
        };
        thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            work()?;
            others.into_iter().try_for_each(|other| other.join().expect("a thread that panicked has said why"))
        })
    }
}

/// Where turns end: at ends of documents.
fn turn_ends(text: &str) -> Vec<usize> {
    let finder = memmem::Finder::new(DOCUMENT_END);
    let (mut ends, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let from = (at + TURN_BYTES).min(text.len());
        at = finder.find(&text.as_bytes()[from..]).map_or(text.len(), |found| from + found + DOCUMENT_END.len());
        ends.push(at);
    }
    ends
}

/// Appends the ids of all documents of a text.
fn encode(text: &str, tokenizer: &HfTokenizer, ids: &mut Vec<u32>) -> Result<()> {
    let mut begin = 0;
    let ends = memmem::find_iter(text.as_bytes(), DOCUMENT_END).chain([text.len()]);
    for end in ends {
        tokenizer.encode(&text[begin.min(end)..end], &mut |piece| {
            ids.extend_from_slice(piece);
            Ok(())
        })?;
        begin = end + DOCUMENT_END.len();
    }
    Ok(())
}

fn lock(ids: &Mutex<Vec<u32>>) -> std::sync::MutexGuard<'_, Vec<u32>> {
    ids.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bytes(ids: &[u32]) -> Vec<u8> {
    ids.iter().flat_map(|id| id.to_le_bytes()).collect()
}

fn put(bytes: &[u8]) -> Result<()> {
    std::io::stdout().write_all(bytes).map_err(|error| Error::Config(format!("standard output: {error}")))
}

//! Tokenization of a file into a buffer of ids: the program that `scripts/bench-tokenize` compares with others.
//!
//! ```text
//! bench_tokenize json TOKENIZER                      the tokenizer as a `tokenizer.json`, on standard output
//! bench_tokenize ids FILE TOKENIZER                  the ids, 4 bytes each, on standard output
//! bench_tokenize run FILE TOKENIZER [THREADS] [PASSES]   the seconds of each pass, the first of them cold
//! ```
//!
//! TOKENIZER is as in `prepare.tokenizer`; a `vocab.txt` is read as one of lowercased text. `WAY=crate` selects the
//! `tokenizers` crate. Documents end at blank lines. In a pass, each thread takes the next megabyte of the file, reads
//! it, checks that it is UTF-8, and encodes its documents. Read buffers and ids are kept for the next pass.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::env;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use memchr::memmem;
use pipeline::tokenize::{self, HfTokenizer, Tokenizer as _, TokenizerBackend};
use pipeline::{Error, Result};

/// Bytes that a thread takes at a time, up to the next end of a document.
const TURN_BYTES: usize = 1 << 20;

const DOCUMENT_END: &[u8] = b"\n\n";

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["json", tokenizer] => put(&loaded(tokenizer)?.facts().json),
        ["ids", file, tokenizer] => {
            let tokenizer = loaded(tokenizer)?;
            let mut room = Room::default();
            room.run_pass(file, &tokenizer, 1)?;
            room.turns.iter().try_for_each(|ids| put(&bytes(ids)))
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
    Ok(if env::var("WAY").is_ok_and(|way| way == "crate") {
        tokenizer.with_backend(TokenizerBackend::Reference)
    } else {
        tokenizer
    })
}

/// Prints a line `pass SECONDS` for each pass, then the work of each.
fn run(file: &str, tokenizer: &HfTokenizer, threads: usize, passes: usize) -> Result<()> {
    let mut room = Room::default();
    for _ in 0..passes {
        let clock = Instant::now();
        room.run_pass(file, tokenizer, threads)?;
        println!("pass {:.6}", clock.elapsed().as_secs_f64());
    }
    let tokens: usize = room.turns.iter().map(Vec::len).sum();
    println!("tokens {tokens} bytes {} way {}", room.bytes, tokenizer.implementation_name());
    Ok(())
}

/// Ids of turns, with their numbers.
type Turns = Vec<(usize, Vec<u32>)>;

/// Buffers kept for the next pass.
#[derive(Default)]
struct Room {
    /// Read buffer of each thread.
    texts: Vec<Vec<u8>>,
    /// Ids of each turn.
    turns: Vec<Vec<u32>>,
    bytes: usize,
}

/// Shared position in the file.
struct Source {
    file: File,
    /// Bytes already read that belong to the next turn.
    rest: Vec<u8>,
    /// Buffers for the ids of the remaining turns, the next of them last.
    free: Vec<Vec<u32>>,
    turns: usize,
    bytes: usize,
}

impl Source {
    /// Reads the documents of the next turn. Returns its number and a buffer for its ids.
    fn next_document(&mut self, text: &mut Vec<u8>) -> std::io::Result<Option<(usize, Vec<u32>)>> {
        text.clear();
        text.append(&mut self.rest);
        loop {
            let read = (&self.file).take(TURN_BYTES as u64).read_to_end(text)?;
            self.bytes += read;
            if read == 0 {
                break;
            }
            if let Some(end) = memmem::find_iter(text, DOCUMENT_END).last() {
                self.rest.extend_from_slice(&text[end + DOCUMENT_END.len()..]);
                text.truncate(end + DOCUMENT_END.len());
                break;
            }
        }
        self.turns += 1;
        Ok((!text.is_empty()).then(|| (self.turns - 1, self.free.pop().unwrap_or_default())))
    }
}

impl Room {
    fn run_pass(&mut self, path: &str, tokenizer: &HfTokenizer, threads: usize) -> Result<()> {
        let unreadable = |error: &dyn std::fmt::Display| Error::Config(format!("{path}: {error}"));
        let file = File::open(path).map_err(|error| unreadable(&error))?;
        self.turns.reverse();
        let source = Source { file, rest: Vec::new(), free: std::mem::take(&mut self.turns), turns: 0, bytes: 0 };
        let source = Mutex::new(source);
        let work = |mut text: Vec<u8>| -> Result<(Vec<u8>, Turns)> {
            let mut done = Vec::new();
            loop {
                let turn = source.lock().unwrap_or_else(PoisonError::into_inner).next_document(&mut text);
                let Some((turn, mut ids)) = turn.map_err(|error| unreadable(&error))? else { return Ok((text, done)) };
                ids.clear();
                let text = std::str::from_utf8(&text).map_err(|error| unreadable(&error))?;
                encode(text, tokenizer, &mut ids)?;
                done.push((turn, ids));
            }
        };
        self.texts.resize_with(threads, Vec::new);
        let mut texts = std::mem::take(&mut self.texts).into_iter();
        let mut done = Vec::new();
        let mine = texts.next().unwrap_or_default();
        thread::scope(|scope| {
            let others: Vec<_> = texts.map(|text| scope.spawn(|| work(text))).collect();
            let outcomes = [work(mine)].into_iter();
            let outcomes = outcomes
                .chain(others.into_iter().map(|other| other.join().expect("a thread that panicked has said why")));
            for outcome in outcomes {
                let (text, turns) = outcome?;
                self.texts.push(text);
                done.extend(turns);
            }
            Ok::<(), Error>(())
        })?;
        done.sort_unstable_by_key(|(turn, _)| *turn);
        self.turns = done.into_iter().map(|(_, ids)| ids).collect();
        self.bytes = source.into_inner().unwrap_or_else(PoisonError::into_inner).bytes;
        Ok(())
    }
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

fn bytes(ids: &[u32]) -> Vec<u8> {
    ids.iter().flat_map(|id| id.to_le_bytes()).collect()
}

fn put(bytes: &[u8]) -> Result<()> {
    std::io::stdout().write_all(bytes).map_err(|error| Error::Config(format!("standard output: {error}")))
}

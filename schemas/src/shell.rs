//! Quoting of words in commands that a user pastes into a shell.

use std::ffi::OsStr;

/// Quotes a word or a path for a POSIX shell, if it needs quotes: `a.txt`, `'my file.txt'`.
#[must_use]
pub fn shell_quoted(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref().to_string_lossy();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./=:,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::shell_quoted;

    #[test]
    fn words_with_meaning_for_a_shell_are_quoted() {
        for (word, expected) in [
            ("runs/a.toml", "runs/a.toml"),
            ("train.steps=5", "train.steps=5"),
            ("", "''"),
            ("my file", "'my file'"),
            ("a$HOME", "'a$HOME'"),
            ("it's", "'it'\\''s'"),
            ("*.txt", "'*.txt'"),
            ("a;b", "'a;b'"),
            ("größe", "'größe'"),
        ] {
            assert_eq!(shell_quoted(word), expected);
        }
    }
}

//! Masks of personal data.
//!
//! # What
//! Replaces e-mail addresses and public IP addresses, and telephone numbers if they are chosen.
//!
//! # Why
//! A model repeats addresses that it has seen, and learns nothing from them.
//!
//! # Definition
//! - An e-mail address is 1 to 64 letters, digits or `.!#$%&'*+/=?^_{|}~-` that start and end with a letter, digit or `_`,
//!   an `@`, and a domain: at least two labels of letters, digits and `-`, the last one of two or more letters.
//! - An IP address is one of version 4 with four numbers, or of version 6, that can be reached from the Internet: not
//!   private, local, shared, reserved, multicast, nor of documentation. A port or prefix length after it is kept.
//! - A telephone number is `+` and 8 to 15 digits, or ten digits as 3, 3 and 4, with blanks, `.`, `-` or brackets between.
//!   It is not next to another digit or letter.
//!
//! A document that only had masked text and is blank now is removed as `blank_after_masking`.
//!
//! Limits: version numbers with four parts (`8.2.10.4`) are masked as addresses. Written-out addresses (`name at domain`),
//! addresses with letters outside ASCII and numbers of other forms are not found. Names and postal addresses are not
//! searched.
//!
//! # Reference
//! RFC 5321, section 4.5.3.1, for the lengths; IANA special-purpose address registries (RFC 6890). Penedo et al. 2024, "The
//! FineWeb Datasets", section 3, masks the same two by default.

mod address;
mod phone;

use schemars::JsonSchema;
use schemas::Problem;
use serde::{Deserialize, Serialize};

use self::address::{email_ranges, ip_ranges};
use self::phone::phone_ranges;
use super::{Filter, FilterVerdict, TextFilter};

/// Masks of personal data. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Pii {
    /// Whether e-mail addresses are masked.
    pub emails: bool,
    /// Whether public IP addresses are masked.
    pub ip_addresses: bool,
    /// Whether telephone numbers are masked.
    pub phone_numbers: bool,
    /// Replacement of e-mail addresses.
    pub email_replacement: String,
    /// Replacement of IP addresses. The default is an address of documentation.
    pub ip_replacement: String,
    /// Replacement of telephone numbers.
    pub phone_replacement: String,
}

impl Default for Pii {
    fn default() -> Self {
        Self {
            emails: true,
            ip_addresses: true,
            phone_numbers: false,
            email_replacement: "email@example.com".into(),
            ip_replacement: "192.0.2.1".into(),
            phone_replacement: "555-0100".into(),
        }
    }
}

/// Maximum length of a replacement.
const MAX_REPLACEMENT_BYTES: usize = 64;

impl Filter for Pii {
    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if !(self.emails || self.ip_addresses || self.phone_numbers) {
            problems.push(Problem::new("emails", "nothing is masked").hint("choose something, or remove the filter"));
        }
        for (key, text) in self.replacements() {
            // A letter or digit next to a mask could become part of a longer address.
            if text.len() > MAX_REPLACEMENT_BYTES || text.chars().any(char::is_control) {
                let hint = format!("give at most {MAX_REPLACEMENT_BYTES} bytes without control characters");
                problems.push(Problem::new(key, "it is too long, or not one line").hint(hint));
            }
        }
        problems
    }

    fn is_idempotent(&self) -> bool {
        // The default masks are masked by themselves, or not at all.
        let default = Self::default();
        self.replacements() == default.replacements()
    }

    fn build(&self, _: Option<&[u8]>) -> Result<Box<dyn TextFilter>, Problem> {
        Ok(Box::new(self.clone()))
    }
}

impl Pii {
    fn replacements(&self) -> [(&'static str, &str); 3] {
        [
            ("email_replacement", &self.email_replacement),
            ("ip_replacement", &self.ip_replacement),
            ("phone_replacement", &self.phone_replacement),
        ]
    }
}

impl TextFilter for Pii {
    fn apply(&self, text: &str) -> FilterVerdict {
        let mut masked: Option<String> = None;
        let kinds = [
            (self.emails, email_ranges as fn(&str) -> Vec<std::ops::Range<usize>>, &self.email_replacement),
            (self.ip_addresses, ip_ranges, &self.ip_replacement),
            (self.phone_numbers, phone_ranges, &self.phone_replacement),
        ];
        for (_, find, replacement) in kinds.into_iter().filter(|(is_on, ..)| *is_on) {
            let before = masked.as_deref().unwrap_or(text);
            let found = find(before);
            if !found.is_empty() {
                masked = Some(replace(before, &found, replacement));
            }
        }
        match masked {
            Some(masked) if masked.trim().is_empty() => FilterVerdict::remove("blank_after_masking"),
            Some(masked) if masked != text => FilterVerdict::Change(masked),
            _ => FilterVerdict::Keep,
        }
    }
}

fn replace(text: &str, ranges: &[std::ops::Range<usize>], replacement: &str) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut end = 0;
    for range in ranges {
        replaced.push_str(&text[end..range.start]);
        replaced.push_str(replacement);
        end = range.end;
    }
    replaced.push_str(&text[end..]);
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &str) -> String {
        let filter = Pii { phone_numbers: true, ..Pii::default() };
        match filter.apply(text) {
            FilterVerdict::Change(text) => text,
            FilterVerdict::Keep => text.to_owned(),
            FilterVerdict::Remove(reason) => panic!("{reason:?}"),
        }
    }

    #[test]
    fn addresses_are_masked_and_other_text_is_kept() {
        let cases = [
            ("Write to Jane.Doe+x@mail.example.co.uk.", "Write to email@example.com."),
            ("<a_b@c-d.org>, (x@y.de)", "<email@example.com>, (email@example.com)"),
            ("@user, a@b, x@y.1, me@@home.org", "@user, a@b, x@y.1, me@@home.org"),
            ("ping 8.8.8.8:53 or 8.8.4.4/24.", "ping 192.0.2.1:53 or 192.0.2.1/24."),
            (
                "127.0.0.1 10.1.2.3 172.20.0.1 192.168.1.1 169.254.1.1 100.64.0.1",
                "127.0.0.1 10.1.2.3 172.20.0.1 192.168.1.1 169.254.1.1 100.64.0.1",
            ),
            ("1.2.3.4.5 256.1.1.1 1.2.3 v8.8.8.8x", "1.2.3.4.5 256.1.1.1 1.2.3 v8.8.8.8x"),
            ("at 2606:4700:4700::1111, [2a00:1450::1]:80", "at 192.0.2.1, [192.0.2.1]:80"),
            ("::1 fe80::1 2001:db8::1 10:20:30 a::b", "::1 fe80::1 2001:db8::1 10:20:30 a::b"),
            ("Call +44 20 7946 0958 or (212) 555-1234!", "Call 555-0100 or 555-0100!"),
            ("2026-11-28, 1,234,567,890 and 12345678901", "2026-11-28, 1,234,567,890 and 12345678901"),
            ("212.555.1234 x212-555-1234 +1", "555-0100 x212-555-1234 +1"),
        ];
        for (text, expected) in cases {
            assert_eq!(masked(text), expected);
            assert_eq!(masked(&masked(text)), expected, "a masked text stays as it is");
        }
    }

    #[test]
    fn a_mask_may_be_empty_but_a_document_may_not() {
        let filter = Pii { email_replacement: String::new(), ..Pii::default() };
        assert!(filter.problems().is_empty());
        assert_eq!(filter.apply("a@b.org "), FilterVerdict::remove("blank_after_masking"));
        let none = Pii { emails: false, ip_addresses: false, ip_replacement: "x".repeat(65), ..Pii::default() };
        assert_eq!(none.problems().len(), 2);
    }
}

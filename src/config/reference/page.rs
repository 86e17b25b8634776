//! Reference of the keys as terminal text.

use super::{Key, Section};

/// Returns the lines of the sections and keys that `wanted` names, or of all if it is empty.
pub(crate) fn lines(sections: &[Section], wanted: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    for section in sections {
        let is_whole = wanted.is_empty() || wanted.iter().any(|wanted| section.matches(wanted));
        let is_asked = |key: &&Key| is_whole || wanted.iter().any(|wanted| section.path(key) == *wanted);
        let keys: Vec<&Key> = section.keys.iter().filter(is_asked).collect();
        if keys.is_empty() && !is_whole {
            continue;
        }
        if !lines.is_empty() {
            lines.push(String::new());
        }
        if !section.head.is_empty() {
            lines.push(format!("{:<40} # {}", section.head, section.meaning));
        }
        lines.extend(section.kind.iter().map(|kind| format!("kind = \"{kind}\"")));
        for key in keys {
            let value =
                key.default.as_ref().map_or_else(|| key.name.clone(), |value| format!("{} = {value}", key.name));
            lines.push(format!("{value:<40} # {}: {}", key.type_and_unit(), key.meaning));
            let described = key.choices.iter().filter(|(_, meaning)| !meaning.is_empty());
            lines.extend(described.map(|(name, meaning)| format!("{:40} #   \"{name}\": {meaning}", "")));
        }
    }
    lines
}

impl Section {
    /// Whether `wanted` names this section: `train`, `views`, `views.mask` or `mask`.
    fn matches(&self, wanted: &str) -> bool {
        let name = self.head.trim_matches(['[', ']']).trim_end_matches(".NAME");
        let kind = self.kind.as_deref().unwrap_or_default();
        !name.is_empty() && [name.to_owned(), kind.to_owned(), format!("{name}.{kind}")].contains(&wanted.to_owned())
    }

    fn path(&self, key: &Key) -> String {
        let name = self.head.trim_matches(['[', ']']).trim_end_matches(".NAME");
        if name.is_empty() { key.name.clone() } else { format!("{name}.{}", key.name) }
    }
}

impl Key {
    pub(super) fn type_and_unit(&self) -> String {
        self.unit.map_or_else(|| self.what.clone(), |unit| format!("{}, {unit}", self.what))
    }
}

#[cfg(test)]
mod tests {
    use super::super::sections;
    use super::*;

    #[test]
    fn a_part_is_selected_by_its_name() {
        let lines_of = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|it| (*it).to_owned()).collect();
            lines(&sections(), &wanted).join("\n")
        };
        assert!(lines_of(&["prepare"]).contains("max_seq_len = 512") && !lines_of(&["prepare"]).contains("[data]"));
        assert_eq!(lines_of(&["prepare.workers"]).matches("threads").count(), 1);
        assert!(lines_of(&["seed"]).starts_with("seed = 1"), "{}", lines_of(&["seed"]));
        assert!(
            lines_of(&["views.mask"]).contains("kind = \"mask\"") && !lines_of(&["mask"]).contains("kind = \"crop\"")
        );
        assert_eq!(lines_of(&["unknown"]), "");
        assert!(lines_of(&[]).lines().count() > 100);
    }
}

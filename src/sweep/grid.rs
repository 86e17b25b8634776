//! Combinations of the values of a sweep.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Hyperparameters with a flag of `cloze finetune`, with the short form in the names of runs. Others are keys of the
/// configuration.
const FLAGS: [(&str, &str); 6] = [
    ("lr", "lr"),
    ("batch_size", "bs"),
    ("epochs", "ep"),
    ("warmup", "wu"),
    ("weight_decay", "wd"),
    ("max_seq_len", "len"),
];

/// Values of one hyperparameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Axis {
    /// Flag of `cloze finetune` with underscores, or key of the configuration.
    pub(crate) key: String,
    pub(crate) values: Vec<String>,
}

/// Value of one hyperparameter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Setting {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl Setting {
    /// Returns the arguments of `cloze finetune`.
    pub(crate) fn arguments(&self) -> [String; 2] {
        let Self { key, value } = self;
        if is_flag(key) {
            [format!("--{}", key.replace('_', "-")), value.clone()]
        } else {
            ["--set".to_owned(), format!("{key}={value}")]
        }
    }

    /// Returns its part of the name of a run: `lr1e-5`.
    pub(crate) fn short(&self) -> String {
        let flag = FLAGS.iter().find(|(flag, _)| *flag == self.key);
        let key = flag.map_or_else(|| self.key.rsplit('.').next().unwrap_or_default(), |(_, short)| short);
        format!("{key}{}", self.value)
    }
}

/// Returns whether a key has a flag of `cloze finetune`.
pub(crate) fn is_flag(key: &str) -> bool {
    FLAGS.iter().any(|(flag, _)| *flag == key)
}

/// Returns all combinations of the axes, the last one varying fastest.
pub(crate) fn product(axes: &[Axis]) -> Vec<Vec<Setting>> {
    let mut combinations = vec![Vec::new()];
    for axis in axes {
        let with = |settings: &Vec<Setting>, value: &String| {
            let mut settings = settings.clone();
            settings.push(Setting { key: axis.key.clone(), value: value.clone() });
            settings
        };
        let longer =
            |settings: &Vec<Setting>| axis.values.iter().map(|value| with(settings, value)).collect::<Vec<_>>();
        combinations = combinations.iter().flat_map(longer).collect();
    }
    combinations
}

/// Draws `count` different combinations; all, if there are not more. Their order stays.
pub(crate) fn draw(combinations: Vec<Vec<Setting>>, count: u64, seed: u64) -> Vec<Vec<Setting>> {
    let rank = |settings: &[Setting]| {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"draw of a sweep").update(&seed.to_le_bytes());
        for Setting { key, value } in settings {
            hasher.update(format!("{key}={value}\n").as_bytes());
        }
        *hasher.finalize().as_bytes()
    };
    let mut ranks: Vec<[u8; 32]> = combinations.iter().map(|settings| rank(settings)).collect();
    ranks.sort_unstable();
    let drawn: BTreeSet<[u8; 32]> = ranks.into_iter().take(usize::try_from(count).unwrap_or(usize::MAX)).collect();
    combinations.into_iter().filter(|settings| drawn.contains(&rank(settings))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> Vec<Axis> {
        let axis = |key: &str, values: &[&str]| Axis {
            key: key.to_owned(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
        };
        vec![axis("lr", &["1e-5", "3e-5"]), axis("optimizer.eps", &["1e-6", "1e-8", "1e-7"])]
    }

    #[test]
    fn a_product_has_every_combination_once() {
        let all = product(&axes());
        let names: Vec<String> =
            all.iter().map(|it| it.iter().map(Setting::short).collect::<Vec<_>>().join("-")).collect();
        assert_eq!(names[..2], ["lr1e-5-eps1e-6", "lr1e-5-eps1e-8"]);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 6);
        assert_eq!(all[0][0].arguments(), ["--lr", "1e-5"]);
        assert_eq!(all[0][1].arguments(), ["--set", "optimizer.eps=1e-6"]);
        assert_eq!(product(&[]), [Vec::new()]);
    }

    #[test]
    fn draws_depend_on_the_seed_alone_and_are_nested() {
        let drawn = |count, seed| draw(product(&axes()), count, seed);
        assert_eq!(drawn(3, 1), drawn(3, 1));
        assert_eq!(drawn(3, 1).len(), 3);
        assert!((2..9).any(|seed| drawn(3, seed) != drawn(3, 1)));
        assert!(drawn(2, 1).iter().all(|it| drawn(3, 1).contains(it)));
        assert_eq!(drawn(6, 1), product(&axes()), "the order stays");
        assert_eq!(drawn(100, 1).len(), 6);
    }
}

//! Generated documents: stories from a small grammar, with enough structure for training.
//!
//! A document is one line: an opening sentence and 5 to 12 sentences about one place and one person. The verb
//! determines the kind of the object, so a model can predict a masked word from its neighbors.

const PEOPLE: &[&str] = &["the miller", "Anna", "the old sailor", "a young clerk", "Tomas", "the baker's sister"];
const PLACES: &[&str] = &["harbour", "mill", "market", "library", "orchard", "station", "workshop"];
const FOOD: &[&str] = &["bread", "an apple", "cold soup", "a pear", "cheese", "honey cake"];
const TOOLS: &[&str] = &["a hammer", "the long saw", "a needle", "the compass", "an axe", "two buckets"];
const TEXTS: &[&str] = &["a letter", "the newspaper", "an unfinished poem", "the timetable", "a map of the coast"];
const WEATHER: &[&str] = &["rain", "fog", "snow", "sunshine", "wind"];
const DAYS: &[&str] = &["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Linear congruential generator: tests need reproducible text, not good randomness.
struct RandomNumbers(u64);

impl RandomNumbers {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % sides as u64).expect("fewer sides than addresses")
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.roll(words.len())]
    }
}

/// Returns `count` documents, the same for every call.
pub fn documents(count: usize) -> Vec<String> {
    let mut dice = RandomNumbers(20);
    (0..count).map(|number| document(&mut dice, number)).collect()
}

fn document(dice: &mut RandomNumbers, number: usize) -> String {
    let person = dice.pick(PEOPLE);
    let place = dice.pick(PLACES);
    let opening = format!("Story {number}. On {} there was {} over the {place}.", dice.pick(DAYS), dice.pick(WEATHER));
    let sentences = (0..5 + dice.roll(8)).map(|_| sentence(dice, person, place));
    std::iter::once(opening).chain(sentences).collect::<Vec<_>>().join(" ")
}

fn sentence(dice: &mut RandomNumbers, person: &str, place: &str) -> String {
    match dice.roll(5) {
        0 => format!("{person} ate {} and drank some water.", dice.pick(FOOD)),
        1 => format!("{person} carried {} to the {place} and worked until evening.", dice.pick(TOOLS)),
        2 => format!("In the {place}, {person} read {} aloud.", dice.pick(TEXTS)),
        3 => format!("After the {} came the {}, and {person} went home.", dice.pick(WEATHER), dice.pick(WEATHER)),
        _ => format!("\"Will you come on {}?\" asked {person}.", dice.pick(DAYS)),
    }
}

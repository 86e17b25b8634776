//! Invariants and statistics of masked rows, counted for the [audit](crate::audit).

use schemas::columns::{IGNORE, INPUT_IDS, LABELS};

use super::positions::{Budget, Candidates, Count, HALF, share};
use super::replace::RandomWords;
use super::unit::Unit;
use super::words::{self, WordBudget};
use crate::audit_counters::{AuditCounters, AuditedView, ViewLaw};

/// Expected selection and replacement of tokens. Field names are those of the view's configuration.
#[derive(Clone, Copy, Debug)]
pub(in crate::views) struct Promise {
    pub(in crate::views) candidates: Candidates,
    pub(in crate::views) budget: Budget,
    pub(in crate::views) replace: [u32; 3],
    pub(in crate::views) words: RandomWords,
    pub(in crate::views) unit: Unit,
    pub(in crate::views) word_budget: WordBudget,
    pub(in crate::views) disjoint: bool,
}

/// Counts one batch. Without ids, labels and the number of real tokens it counts nothing.
pub(in crate::views) fn audit(promise: Promise, seen: &AuditedView<'_>, tally: &mut AuditCounters) {
    let columns = (seen.column(INPUT_IDS), seen.column(LABELS), seen.tokens());
    let (Some(ids), Some(labels), Some(tokens)) = columns else { return };
    let mut look = MaskedView {
        promise,
        seen,
        tally,
        masked: ViewLaw::default(),
        kept: ViewLaw::default(),
        memory: Memory::default(),
    };
    for (row, &tokens) in tokens.iter().enumerate() {
        let (labels, padding) = labels.row(row).split_at(tokens);
        if let Some(past) = padding.iter().position(|&label| label != IGNORE) {
            look.tally.record_violation("padding is masked", row, tokens + past);
        }
        look.row(row, &ids.row(row)[..tokens], labels);
    }
    let MaskedView { masked, kept, .. } = look;
    tally.count("masked tokens that become `[MASK]`", masked);
    tally.count("masked tokens that stay", kept);
}

struct MaskedView<'a> {
    promise: Promise,
    seen: &'a AuditedView<'a>,
    tally: &'a mut AuditCounters,
    masked: ViewLaw,
    kept: ViewLaw,
    memory: Memory,
}

/// Buffers kept from row to row, mostly to be overwritten.
#[derive(Default)]
struct Memory {
    /// Current row before masking, and the previous row before masking.
    original: Vec<i32>,
    before: Vec<i32>,
    /// Selected positions, ascending.
    chosen: Vec<u16>,
    /// Candidate positions, for checks of words.
    candidates: Vec<u16>,
    /// Positions predicted by the copies of the row so far.
    claimed: Vec<bool>,
}

impl MaskedView<'_> {
    fn row(&mut self, row: usize, ids: &[i32], labels: &[i32]) {
        let Memory { original, before, chosen, .. } = &mut self.memory;
        std::mem::swap(original, before);
        original.clear();
        original.extend(ids.iter().zip(labels).map(|(&id, &label)| if label == IGNORE { id } else { label }));
        positions_of(labels, chosen);
        let rule = self.promise.candidates;
        let vocab = self.seen.vocab();
        let is_other = |position: &&u16| !rule.admits(labels[usize::from(**position)], vocab);
        if let Some(&position) = chosen.iter().find(is_other) {
            self.tally.record_violation("a special token is masked", row, position.into());
        }
        let units =
            if self.promise.unit == Unit::Word { self.words(row, labels) } else { self.tokens(row, labels.len()) };
        if self.promise.disjoint {
            self.disjoint(row, labels, units);
        }
        self.replacements(row, ids, labels);
    }

    /// Compares the number of selected tokens with the expected one; returns the number of candidates.
    fn tokens(&mut self, row: usize, tokens: usize) -> usize {
        let rule = self.promise.candidates;
        let vocab = self.seen.vocab();
        let candidates = self.memory.original.iter().filter(|&&id| rule.admits(id, vocab)).count();
        let chosen = self.memory.chosen.len();
        let law = self.promise.budget.law(tokens, candidates, self.share(candidates));
        self.amount(row, chosen, law, candidates);
        candidates
    }

    /// Checks that words are selected whole, and in the expected number; returns the number of words.
    fn words(&mut self, row: usize, labels: &[i32]) -> usize {
        let Memory { original, candidates, chosen, .. } = &mut self.memory;
        self.promise.candidates.find(original, self.seen.vocab(), candidates);
        let borders = words::borders(original, candidates, self.seen.vocab());
        let words = borders.len() - 1;
        let mut whole = 0;
        let mut shortest = usize::MAX;
        for border in borders.windows(2) {
            let word = &candidates[usize::from(border[0])..usize::from(border[1])];
            match word.iter().filter(|&&position| labels[usize::from(position)] != IGNORE).count() {
                0 => shortest = shortest.min(word.len()),
                count if count == word.len() => whole += 1,
                _ => self.tally.record_violation("a word is masked in part", row, word[0].into()),
            }
        }
        let budget = self.promise.budget;
        let chosen = chosen.len();
        let candidates = candidates.len();
        if self.promise.word_budget == WordBudget::Words {
            let most = self.share(words).min(words::share_max(words));
            self.amount(row, whole, budget.law(words, words, most), words);
        } else if let Some((least, most)) = budget.bounds(labels.len(), candidates) {
            // Only a word that would overshoot is skipped.
            let skipped = chosen < least && shortest <= least - chosen;
            if chosen > most || skipped {
                self.tally.record_violation(AMOUNT, row, 0);
            }
        }
        words
    }

    /// Returns the largest part of `of` elements that one copy may take.
    fn share(&self, of: usize) -> usize {
        if self.promise.disjoint { (of / self.seen.copies() as usize).max(1).min(of) } else { of }
    }

    fn amount(&mut self, row: usize, chosen: usize, law: Option<(f64, f64)>, of: usize) {
        let Some((expected, variance)) = law else { return };
        let found = chosen as f64;
        if self.promise.budget.count == Count::Exact && (found - expected).abs() > 0.5 {
            self.tally.record_violation(AMOUNT, row, 0);
        }
        // Copies that share one order also share the draw of their number.
        let variance = if self.promise.disjoint { variance * f64::from(self.seen.copies()) } else { variance };
        let what = if self.promise.unit == Unit::Word { "masked words" } else { "masked tokens" };
        self.tally.count(what, ViewLaw { found, expected, variance, of: of as f64, largest: variance.sqrt().max(1.0) });
    }

    /// Checks that no two copies predict the same token if there are enough `units` for all. Copies that an
    /// intermediate edit made different are not checked.
    fn disjoint(&mut self, row: usize, labels: &[i32], units: usize) {
        let Memory { original, before, chosen, claimed, .. } = &mut self.memory;
        if !(self.seen.is_next_copy(row) && original == before) {
            claimed.clear();
            claimed.resize(labels.len(), false);
        }
        let enough = self.seen.copies() as usize <= units;
        for &position in chosen.iter() {
            let claimed = &mut claimed[usize::from(position)];
            if *claimed && enough {
                self.tally.record_violation("two copies of a row predict the same token", row, position.into());
            }
            *claimed = true;
        }
    }

    /// Checks the replacements of the selected tokens: decided for each token, or once for each run of them.
    fn replacements(&mut self, row: usize, ids: &[i32], labels: &[i32]) {
        let chosen = std::mem::take(&mut self.memory.chosen);
        if self.promise.unit == Unit::Span {
            for run in chosen.chunk_by(|left, right| left + 1 == *right) {
                self.decisions(row, run, ids, labels);
            }
        } else {
            self.decisions(row, &chosen, ids, labels);
        }
        self.memory.chosen = chosen;
    }

    fn decisions(&mut self, row: usize, positions: &[u16], ids: &[i32], labels: &[i32]) {
        let (vocab, [masked, random, kept]) =
            (self.seen.vocab(), self.promise.replace.map(|part| f64::from(part) / 100.0));
        let mask_id = vocab.special().mask.cast_signed();
        let mut count = 0_u32;
        let mut hidden = 0_u32;
        let mut same = 0_u32;
        let mut chance = 0.0;
        for &position in positions {
            let id = ids[usize::from(position)];
            let label = labels[usize::from(position)];
            // A `[MASK]` in the text itself is indistinguishable from one of the view.
            if label == mask_id {
                continue;
            }
            count += 1;
            hidden += u32::from(id == mask_id);
            same += u32::from(id == label);
            chance += self.chance(label);
            if id != mask_id && id != label && vocab.ordinary().binary_search(&id.cast_unsigned()).is_err() {
                self.tally.record_violation("a token is replaced by a special or unused one", row, position.into());
            }
        }
        if count > 0 {
            let of = f64::from(count);
            let size = if self.promise.unit == Unit::Span { of } else { 1.0 };
            self.masked.add(ViewLaw::events(f64::from(hidden), masked, of, size));
            // Upper bound for the variance of events with different probabilities.
            self.kept.add(ViewLaw::events(f64::from(same), kept + random * chance / of, of, size));
        }
    }

    /// Returns the probability that a random word is this one.
    fn chance(&self, id: i32) -> f64 {
        let vocab = self.seen.vocab();
        let id = id.cast_unsigned();
        let occurrences = self.seen.occurrences();
        match self.promise.words {
            _ if vocab.is_special(id) => 0.0,
            RandomWords::Unigram if occurrences > 0 => vocab.counts()[id as usize] as f64 / occurrences as f64,
            _ => 1.0 / vocab.ordinary().len() as f64,
        }
    }
}

const AMOUNT: &str = "a row has a wrong number of masked tokens";

/// Returns the positions of labels. Branch-free, as masks are unpredictable.
fn positions_of(labels: &[i32], positions: &mut Vec<u16>) {
    positions.clear();
    positions.resize(labels.len() + 1, 0);
    let mut count = 0;
    for (position, &label) in (0..).zip(labels) {
        positions[count] = position;
        count += usize::from(label != IGNORE);
    }
    positions.truncate(count);
}

impl Budget {
    /// Returns mean and variance of the number of selected `candidates`, at most `most`. Returns `None` if that limit
    /// would bias the distribution.
    fn law(self, tokens: usize, candidates: usize, most: usize) -> Option<(f64, f64)> {
        if self.count == Count::Bernoulli {
            let mean = self.rate * candidates as f64;
            let variance = mean * (1.0 - self.rate);
            let is_free = most == candidates || mean + 6.0 * variance.sqrt() < most as f64;
            return is_free.then_some((mean, variance));
        }
        let (least, next) = self.bounds(tokens, candidates)?;
        let least = least.min(most) as f64;
        let next = next.min(most) as f64;
        let up =
            if self.count == Count::Exact { 0.0 } else { (self.rate * self.base(tokens, candidates) as f64).fract() };
        Some((least + up * (next - least), up * (1.0 - up) * (next - least)))
    }

    /// Returns the lower and upper limit of a rounded number of selected tokens.
    fn bounds(self, tokens: usize, candidates: usize) -> Option<(usize, usize)> {
        let base = self.base(tokens, candidates);
        let (least, most) = match self.count {
            Count::Bernoulli => return None,
            Count::Exact => (share(self.rate, base, HALF).max(1), share(self.rate, base, HALF).max(1)),
            Count::StochasticRound => (share(self.rate, base, 0.0), share(self.rate, base, 1.0)),
        };
        Some((least.min(candidates), most.min(candidates)))
    }
}

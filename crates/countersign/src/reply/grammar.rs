//! Compiles a language's table of word patterns into one automaton.
//!
//! The automaton is fed the words of a reply one by one, and reports which kinds of piece end after each. `kind.rs`
//! determines what a sequence of kinds means.
//!
//! A table has classes (`name = a | b c`) and sections (`[yes]`) of patterns, one per line. A pattern is a sequence of
//! words, classes (`<name>`) and groups (`(a | b c)`), each of which may be followed by `?`, `*` or `+`.

use std::collections::HashMap;

use super::kind::{Kinds, PieceKind};
use super::lexicon::{FastMap, Lexicon, Word};
use super::word::split;

/// A node of a parsed pattern.
#[derive(Clone, Debug, PartialEq)]
enum Pattern {
    /// Any one of these words.
    Words(Vec<Word>),
    Row(Vec<Pattern>),
    Any(Vec<Pattern>),
    Maybe(Box<Pattern>),
    Repeat(Box<Pattern>),
}

/// A mistake in a table. Tables are compiled in, so a test finds every mistake.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub(super) struct TableProblem {
    pub(super) line: usize,
    pub(super) problem: String,
}

/// A table that was read but not compiled yet.
#[derive(Debug, Default)]
pub(super) struct Table {
    classes: HashMap<String, Pattern>,
    patterns: Vec<(PieceKind, Pattern)>,
    /// Lines of word lists, each with the name of its section; see [`LISTS`].
    pub(super) lists: Vec<(&'static str, Vec<Word>)>,
    /// Every word that occurs in a pattern.
    pub(super) words: Vec<Word>,
}

/// Sections whose lines are lists of words, not patterns.
const LISTS: [&str; 6] = ["glue", "stop", "acts", "same", "international", "more"];

impl Table {
    /// Adds the classes, patterns and lists of one more text.
    pub(super) fn read(&mut self, text: &str, lexicon: &mut Lexicon) -> Result<(), TableProblem> {
        let mut section = Section::Classes;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split_once('#').map_or(line, |(before, _)| before).trim();
            if line.is_empty() {
                continue;
            }
            let wrong = |problem: String| TableProblem {
                line: number,
                problem,
            };
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = Section::named(name).ok_or_else(|| wrong(format!("no section `{name}`")))?;
                continue;
            }
            match section {
                Section::Classes => {
                    let (name, pattern) = line
                        .split_once('=')
                        .ok_or_else(|| wrong("a class is `name = pattern`".to_owned()))?;
                    let part = self.parse(pattern, lexicon).map_err(wrong)?;
                    self.classes.insert(name.trim().to_owned(), part);
                }
                Section::Patterns(kind) => {
                    let part = self.parse(line, lexicon).map_err(wrong)?;
                    self.patterns.push((kind, part));
                }
                Section::List(name) => {
                    let words = line.split_whitespace().flat_map(split);
                    let words = words.map(|word| lexicon.intern(&word)).collect();
                    self.lists.push((name, words));
                }
            }
        }
        Ok(())
    }

    /// Adds a phrase without classes, groups and repetition.
    pub(super) fn add(&mut self, kind: PieceKind, phrase: &str, lexicon: &mut Lexicon) {
        let words: Vec<Word> = split(phrase).iter().map(|word| lexicon.intern(word)).collect();
        if words.is_empty() {
            return;
        }
        self.words.extend(&words);
        let row = words.into_iter().map(|word| Pattern::Words(vec![word])).collect();
        self.patterns.push((kind, Pattern::Row(row)));
    }

    fn parse(&mut self, pattern: &str, lexicon: &mut Lexicon) -> Result<Pattern, String> {
        let mut parser = PatternParser {
            rest: pattern,
            classes: &self.classes,
            words: &mut self.words,
            lexicon,
        };
        let part = parser.alternatives()?;
        match parser.rest.trim() {
            "" => Ok(part),
            rest => Err(format!("not understood: `{rest}`")),
        }
    }

    /// Compiles all patterns into one automaton.
    pub(super) fn compile(&self) -> Automaton {
        let mut nfa = Nfa::default();
        let start = nfa.state();
        for (kind, part) in &self.patterns {
            let end = nfa.add(part, start);
            let accept = nfa.state();
            nfa.empty(end, accept);
            nfa.accept(accept, *kind);
        }
        let mut automaton = nfa.determine(start);
        let most = self.words.iter().map(|word| word.0 as usize + 1).max();
        automaton.words = vec![false; most.unwrap_or(0)];
        for word in &self.words {
            if let Some(known) = automaton.words.get_mut(word.0 as usize) {
                *known = true;
            }
        }
        automaton
    }
}

#[derive(Clone, Copy)]
enum Section {
    Classes,
    Patterns(PieceKind),
    List(&'static str),
}

impl Section {
    fn named(name: &str) -> Option<Section> {
        let list = LISTS.into_iter().find(|list| *list == name).map(Section::List);
        list.or_else(|| PieceKind::named(name).map(Section::Patterns))
    }
}

/// Recursive-descent parser for one pattern.
struct PatternParser<'a> {
    rest: &'a str,
    classes: &'a HashMap<String, Pattern>,
    words: &'a mut Vec<Word>,
    lexicon: &'a mut Lexicon,
}

impl PatternParser<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn take(&mut self, expected: char) -> bool {
        let found = self.peek() == Some(expected);
        if found {
            self.rest = self.rest.strip_prefix(expected).unwrap_or(self.rest);
        }
        found
    }

    fn alternatives(&mut self) -> Result<Pattern, String> {
        let mut rows = vec![self.row()?];
        while self.take('|') {
            rows.push(self.row()?);
        }
        // Alternatives of a single word share one edge, which keeps the automaton small.
        let (singles, mut others): (Vec<Pattern>, Vec<Pattern>) =
            rows.into_iter().partition(|row| matches!(row, Pattern::Words(_)));
        let mut words: Vec<Word> = Vec::new();
        for single in singles {
            if let Pattern::Words(more) = single {
                words.extend(more);
            }
        }
        if !words.is_empty() {
            others.push(Pattern::Words(words));
        }
        match others.len() {
            1 => others.pop().ok_or_else(String::new),
            _ => Ok(Pattern::Any(others)),
        }
    }

    fn row(&mut self) -> Result<Pattern, String> {
        let mut parts = Vec::new();
        while let Some(next) = self.peek() {
            let mut part = match next {
                '|' | ')' => break,
                '(' => {
                    self.take('(');
                    let inner = self.alternatives()?;
                    if !self.take(')') {
                        return Err("a group is not closed".to_owned());
                    }
                    inner
                }
                '<' => self.class()?,
                _ => self.word()?,
            };
            if self.take('?') {
                part = Pattern::Maybe(Box::new(part));
            } else if self.take('*') {
                part = Pattern::Maybe(Box::new(Pattern::Repeat(Box::new(part))));
            } else if self.take('+') {
                part = Pattern::Repeat(Box::new(part));
            }
            parts.push(part);
        }
        match parts.len() {
            0 => Err("an empty alternative".to_owned()),
            1 => parts.pop().ok_or_else(String::new),
            _ => Ok(Pattern::Row(parts)),
        }
    }

    fn class(&mut self) -> Result<Pattern, String> {
        self.take('<');
        let (name, rest) = self.rest.split_once('>').ok_or("a class is not closed")?;
        self.rest = rest;
        let class = self.classes.get(name.trim());
        class.cloned().ok_or_else(|| format!("no class `{name}`"))
    }

    fn word(&mut self) -> Result<Pattern, String> {
        let ends = |c: char| c.is_whitespace() || "()|<>?*+".contains(c);
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        let words: Vec<Word> = split(text).iter().map(|word| self.lexicon.intern(word)).collect();
        self.words.extend(&words);
        let mut parts: Vec<Pattern> = words.into_iter().map(|word| Pattern::Words(vec![word])).collect();
        match parts.len() {
            0 => Err(format!("`{text}` is not a word")),
            1 => parts.pop().ok_or_else(String::new),
            _ => Ok(Pattern::Row(parts)),
        }
    }
}

/// The nondeterministic automaton (NFA) that is built first. Some of its edges are empty: they read no word.
#[derive(Default)]
struct Nfa {
    edges: Vec<Vec<(Word, u32)>>,
    empties: Vec<Vec<u32>>,
    kinds: Vec<Kinds>,
}

impl Nfa {
    fn state(&mut self) -> u32 {
        self.edges.push(Vec::new());
        self.empties.push(Vec::new());
        self.kinds.push(Kinds::NONE);
        u32::try_from(self.edges.len() - 1).unwrap_or(u32::MAX)
    }

    fn empty(&mut self, from: u32, to: u32) {
        if let Some(empties) = self.empties.get_mut(from as usize) {
            empties.push(to);
        }
    }

    fn accept(&mut self, state: u32, kind: PieceKind) {
        if let Some(kinds) = self.kinds.get_mut(state as usize) {
            *kinds = kinds.with(kind);
        }
    }

    /// Adds `part` after the state `from` and returns the state after it.
    fn add(&mut self, part: &Pattern, from: u32) -> u32 {
        match part {
            Pattern::Words(words) => {
                let to = self.state();
                if let Some(edges) = self.edges.get_mut(from as usize) {
                    edges.extend(words.iter().map(|word| (*word, to)));
                }
                to
            }
            Pattern::Row(parts) => parts.iter().fold(from, |at, part| self.add(part, at)),
            Pattern::Any(parts) => {
                let to = self.state();
                for part in parts {
                    let end = self.add(part, from);
                    self.empty(end, to);
                }
                to
            }
            Pattern::Maybe(part) => {
                // Without a separate state for its start, a loop inside could lead back past this point.
                let begin = self.state();
                self.empty(from, begin);
                let end = self.add(part, begin);
                let to = self.state();
                self.empty(end, to);
                self.empty(begin, to);
                to
            }
            Pattern::Repeat(part) => {
                let begin = self.state();
                self.empty(from, begin);
                let end = self.add(part, begin);
                let to = self.state();
                self.empty(end, to);
                self.empty(end, begin);
                to
            }
        }
    }

    /// Returns the closure of `states` over empty edges, sorted. States that neither read a word nor end a piece are
    /// left out.
    fn close(&self, states: &[u32], seen: &mut [bool]) -> Vec<u32> {
        let mut stack = states.to_vec();
        let mut visited = Vec::new();
        let mut closed = Vec::new();
        while let Some(state) = stack.pop() {
            let at = state as usize;
            let Some(seen) = seen.get_mut(at).filter(|seen| !**seen) else {
                continue;
            };
            *seen = true;
            visited.push(at);
            let reads = self.edges.get(at).is_some_and(|edges| !edges.is_empty());
            let ends = self.kinds.get(at).is_some_and(|kinds| *kinds != Kinds::NONE);
            if reads || ends {
                closed.push(state);
            }
            stack.extend(self.empties.get(at).into_iter().flatten());
        }
        for at in visited {
            if let Some(seen) = seen.get_mut(at) {
                *seen = false;
            }
        }
        closed.sort_unstable();
        closed
    }

    /// Makes the automaton deterministic by subset construction.
    fn determine(&self, start: u32) -> Automaton {
        let mut seen = vec![false; self.edges.len()];
        let mut sets: HashMap<Vec<u32>, u32> = HashMap::new();
        let mut targets: HashMap<Vec<u32>, u32> = HashMap::new();
        let first = self.close(&[start], &mut seen);
        sets.insert(first.clone(), 0);
        let mut waiting = vec![first];
        let mut automaton = Automaton::default();
        let mut at: u32 = 0;
        while let Some(set) = waiting.get(at as usize).cloned() {
            let kinds = set.iter().filter_map(|state| self.kinds.get(*state as usize));
            automaton
                .kinds
                .push(kinds.fold(Kinds::NONE, |all, kinds| all.and(*kinds)));
            let mut steps: Vec<(Word, u32)> = Vec::new();
            for state in &set {
                steps.extend(self.edges.get(*state as usize).into_iter().flatten());
            }
            steps.sort_unstable();
            steps.dedup();
            for group in steps.chunk_by(|left, right| left.0 == right.0) {
                let Some((word, _)) = group.first() else { continue };
                let reached: Vec<u32> = group.iter().map(|(_, to)| *to).collect();
                let to = match targets.get(&reached) {
                    Some(to) => *to,
                    None => {
                        let closed = self.close(&reached, &mut seen);
                        let next = u32::try_from(waiting.len()).unwrap_or(u32::MAX);
                        let to = *sets.entry(closed.clone()).or_insert(next);
                        if to == next {
                            waiting.push(closed);
                        }
                        targets.insert(reached, to);
                        to
                    }
                };
                automaton.steps.insert(Automaton::key(at, *word), to);
            }
            at += 1;
        }
        automaton
    }
}

/// A compiled table (a DFA). State 0 is the beginning of a piece.
#[derive(Debug, Default)]
pub(super) struct Automaton {
    steps: FastMap<u64, u32>,
    kinds: Vec<Kinds>,
    /// By word id: true if any piece contains the word.
    words: Vec<bool>,
}

impl Automaton {
    /// Returns true if any piece contains the word.
    pub(super) fn knows(&self, word: Word) -> bool {
        self.words.get(word.0 as usize).copied().unwrap_or(false)
    }

    fn key(state: u32, word: Word) -> u64 {
        (u64::from(state) << 32) | u64::from(word.0)
    }

    /// Returns the state after `word`, or `None` if no piece continues with it.
    pub(super) fn step(&self, state: u32, word: Word) -> Option<u32> {
        self.steps.get(&Automaton::key(state, word)).copied()
    }

    /// Returns the kinds of piece that the word forms by itself.
    pub(super) fn alone(&self, word: Word) -> Kinds {
        self.step(0, word).map_or(Kinds::NONE, |state| self.kinds(state))
    }

    /// Returns the kinds of piece that end in this state.
    pub(super) fn kinds(&self, state: u32) -> Kinds {
        self.kinds.get(state as usize).copied().unwrap_or(Kinds::NONE)
    }

    /// Returns the number of states and of transitions.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        (self.kinds.len(), self.steps.len())
    }
}

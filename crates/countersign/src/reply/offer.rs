//! The offer: the labels and words that a reply is read against.
//!
//! An [`Offer`] of a card consists of the labels of its two buttons and the act's own words, all written by the
//! operator or by this program. The text of the card is not part of it: some of that text comes from an agent, and the
//! program's own sentences ("or "no" to cancel") are not words to repeat either.
//!
//! A prompt of another program has no such structure. [`Bare`] holds its whole text.

use std::borrow::Cow;

use super::card::language_of_act;
use crate::approval::Approval;
use crate::effect::Effect;
use crate::policy::{Act, OnFiller, Policy, Terms, VALUE};
use crate::sentence::Sentences;

/// Labels, words of the act and language that a reply is read against.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer<'a> {
    pub(super) yes: Option<Cow<'a, str>>,
    pub(super) no: Option<Cow<'a, str>>,
    pub(super) words: OfferWords<'a>,
    pub(super) language: Option<Cow<'a, str>>,
    pub(super) needs_yes: bool,
    pub(super) numbered: usize,
    /// True if the policy gives a label for either button.
    pub(super) has_own_labels: bool,
}

/// Words that a reply may repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OfferWords<'a> {
    /// Words of a card: the policy's label for the act, if it has one, and the act's own words.
    Act { label: Option<String>, act: Option<Act> },
    /// The text of another program's prompt.
    Text(Cow<'a, str>),
}

impl Default for OfferWords<'_> {
    fn default() -> Self {
        OfferWords::Text(Cow::Borrowed(""))
    }
}

/// A prompt of another program: text without structure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bare<'a> {
    /// Text that the person saw.
    pub text: &'a str,
    /// Label of the approving button, if there is one.
    pub yes: Option<&'a str>,
    /// Label of the denying button, if there is one.
    pub no: Option<&'a str>,
    /// True if a filler such as "ok" is not enough to approve.
    pub needs_yes: bool,
    /// Number of things that the text numbers, so that a reply can refer to some of them; 0 if it numbers nothing.
    pub numbered: usize,
}

impl<'a> From<Bare<'a>> for Offer<'a> {
    fn from(bare: Bare<'a>) -> Offer<'a> {
        Offer {
            yes: bare.yes.map(Cow::Borrowed),
            no: bare.no.map(Cow::Borrowed),
            words: OfferWords::Text(Cow::Borrowed(bare.text)),
            language: None,
            needs_yes: bare.needs_yes,
            numbered: bare.numbered,
            has_own_labels: bare.yes.is_some() || bare.no.is_some(),
        }
    }
}

impl Offer<'_> {
    /// Returns the offer of an approval's card. The labels come from the policy if all calls share them, otherwise from
    /// `sentences`. `numbered` is the number of calls that the card numbers; 0 if it numbers none.
    ///
    /// INVARIANT: nothing in the offer comes from arguments, claims or results; a test proposes hostile ones and
    /// compares.
    pub fn of_card(
        approval: &Approval,
        policy: &Policy,
        sentences: &Sentences,
        numbered: usize,
    ) -> Offer<'static> {
        let calls = approval.calls.as_slice();
        // A label is used only if all calls share it: a button must not name one act and release another.
        let shared = |of: fn(&Terms) -> Option<&String>| {
            let label = of(&calls.first()?.terms)?;
            let is_shared = calls.iter().all(|call| of(&call.terms) == Some(label));
            is_shared.then(|| label.clone())
        };
        let own = shared(|terms| terms.yes.as_ref());
        let own_no = shared(|terms| terms.no.as_ref());
        let has_own_labels = own.is_some() || own_no.is_some();
        let no = own_no.unwrap_or_else(|| sentences.no.clone());
        let tool = calls.first().map(|call| &call.tool);
        let is_one_tool = calls.iter().all(|call| Some(&call.tool) == tool);
        let act = tool
            .filter(|_| is_one_tool)
            .and_then(|tool| policy.act(tool.as_str()));
        // English sentences may only be a default; the operator's label may still be in the person's language.
        let own_words = own.iter().map(String::as_str).chain(act.map(Act::text));
        let language = match sentences.language.as_str() {
            "en" => language_of_act(own_words).unwrap_or("en"),
            other => other,
        };
        let is_destructive = calls.iter().any(|call| call.terms.effect == Effect::Destructive);
        Offer {
            yes: Some(Cow::Owned(own.clone().unwrap_or_else(|| sentences.yes.clone()))),
            no: Some(Cow::Owned(no)),
            words: OfferWords::Act {
                label: own,
                act: act.cloned(),
            },
            language: Some(Cow::Owned(language.to_owned())),
            needs_yes: policy.channel().on_filler == OnFiller::AskAgain && is_destructive,
            numbered,
            has_own_labels,
        }
    }

    /// Returns the labels of the approving and the denying button.
    pub fn labels(&self) -> (&str, &str) {
        (
            self.yes.as_deref().unwrap_or_default(),
            self.no.as_deref().unwrap_or_default(),
        )
    }

    /// Returns the card's language, or `None` if it is not known.
    pub fn language(&self) -> Option<&str> {
        self.language.as_deref()
    }

    /// Returns true if a filler such as "ok" is not enough to approve.
    pub fn needs_yes(&self) -> bool {
        self.needs_yes
    }

    /// Returns true for a card of this program, false for a prompt of another program.
    pub(super) fn is_card(&self) -> bool {
        matches!(self.words, OfferWords::Act { .. })
    }

    /// Returns true if it is unknown what was offered: there is neither a text nor an approving label.
    pub(super) fn is_nothing(&self) -> bool {
        let says_nothing = match &self.words {
            OfferWords::Act { .. } => false,
            OfferWords::Text(text) => text.is_empty(),
        };
        says_nothing && self.yes.is_none()
    }

    /// Returns the words that a reply may repeat, as one text.
    pub(super) fn text(&self) -> Cow<'_, str> {
        match &self.words {
            OfferWords::Text(text) => Cow::Borrowed(text),
            OfferWords::Act { label: None, act } => Cow::Borrowed(act.as_ref().map_or("", Act::text)),
            OfferWords::Act {
                label: Some(label),
                act,
            } => {
                let act = act.as_ref().map_or("", Act::text);
                Cow::Owned(format!("{label} {VALUE} {act}"))
            }
        }
    }
}

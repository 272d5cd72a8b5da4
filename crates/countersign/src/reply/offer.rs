//! The offer: what a reply is read against.
//!
//! Enters: the labels of a card's two buttons, and the act's own words: all of them written by the operator or by us.
//! Leaves: an [`Offer`]. Deliberately absent: the text of the card. What it shows came from an agent in part, and our
//! own sentences ("or "no" to cancel") are no vocabulary either.
//!
//! A prompt of another program has no such structure. [`Bare`] is its whole text, and is read with more care.

use std::borrow::Cow;

use crate::approval::Approval;
use crate::effect::Effect;
use crate::policy::{Act, OnFiller, Policy, Terms, VALUE};
use crate::sentence::Sentences;

/// What a reply is read against.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer<'a> {
    pub(super) yes: Option<Cow<'a, str>>,
    pub(super) no: Option<Cow<'a, str>>,
    pub(super) words: OfferWords<'a>,
    pub(super) language: Option<Cow<'a, str>>,
    pub(super) needs_yes: bool,
    pub(super) numbered: usize,
}

/// The words that a reply may repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OfferWords<'a> {
    /// A card's: the label, where the policy has one for the act, and the act's own.
    Act { label: Option<String>, act: Option<Act> },
    /// The text of a prompt that is not ours.
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
    /// The text a person saw.
    pub text: &'a str,
    /// What the approving button says.
    pub yes: Option<&'a str>,
    /// What the denying button says.
    pub no: Option<&'a str>,
    /// True if a filler such as "ok" is not enough to approve.
    pub needs_yes: bool,
    /// How many things the text numbers, so that some of them can be named; 0 when it numbers nothing.
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
        }
    }
}

impl Offer<'_> {
    /// The offer of an approval's card, in these sentences.
    ///
    /// INVARIANT: nothing of it comes from arguments, claims or results; a test proposes hostile ones and compares.
    pub fn of_card(
        approval: &Approval,
        policy: &Policy,
        sentences: &Sentences,
        numbered: usize,
    ) -> Offer<'static> {
        let calls = approval.calls.as_slice();
        // One label for all, or none: a button must not name one act and release another.
        let shared = |of: fn(&Terms) -> Option<&String>| {
            let label = of(&calls.first()?.terms)?;
            let is_shared = calls.iter().all(|call| of(&call.terms) == Some(label));
            is_shared.then(|| label.clone())
        };
        let own = shared(|terms| terms.yes.as_ref());
        let no = shared(|terms| terms.no.as_ref()).unwrap_or_else(|| sentences.no.clone());
        let tool = calls.first().map(|call| &call.tool);
        let is_one_tool = calls.iter().all(|call| Some(&call.tool) == tool);
        let act = tool
            .filter(|_| is_one_tool)
            .and_then(|tool| policy.act(tool.as_str()));
        let is_destructive = calls.iter().any(|call| call.terms.effect == Effect::Destructive);
        Offer {
            yes: Some(Cow::Owned(own.clone().unwrap_or_else(|| sentences.yes.clone()))),
            no: Some(Cow::Owned(no)),
            words: OfferWords::Act {
                label: own,
                act: act.cloned(),
            },
            language: Some(Cow::Owned(sentences.language.clone())),
            needs_yes: policy.channel().on_filler == OnFiller::AskAgain && is_destructive,
            numbered,
        }
    }

    /// What the approving and the denying button say.
    pub fn labels(&self) -> (&str, &str) {
        (
            self.yes.as_deref().unwrap_or_default(),
            self.no.as_deref().unwrap_or_default(),
        )
    }

    /// The language of the card; nothing where it is not known.
    pub fn language(&self) -> Option<&str> {
        self.language.as_deref()
    }

    /// True if a filler such as "ok" is not enough to approve.
    pub fn needs_yes(&self) -> bool {
        self.needs_yes
    }

    /// Whether it is the offer of a card of ours.
    pub(super) fn is_card(&self) -> bool {
        matches!(self.words, OfferWords::Act { .. })
    }

    /// Whether nothing at all is known of what was offered.
    pub(super) fn is_nothing(&self) -> bool {
        let says_nothing = match &self.words {
            OfferWords::Act { .. } => false,
            OfferWords::Text(text) => text.is_empty(),
        };
        says_nothing && self.yes.is_none()
    }

    /// The words to be repeated, as one text.
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

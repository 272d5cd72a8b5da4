//! The kinds of piece that a reply consists of, and the meaning of a sequence of pieces.
//!
//! The pieces are read in order, and each one changes the state of the reply. The whole rule is one table,
//! [`ReplyState::after`]. If one piece does not fit the state before it, the whole reply is not understood.

/// Role of one piece of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PieceKind {
    /// Says yes: "yes", "that is correct", "go ahead".
    Yes,
    /// Accepts: "sounds good", "that's fine". After a no it only softens the no.
    Fine,
    /// A filler that consents: "ok", "alright", a thumbs-up.
    Ok,
    /// Praise, which is an answer only if something was offered: "great", "perfect".
    Praise,
    /// "Please".
    Please,
    /// "Thank you".
    Thanks,
    /// Greetings, forms of address, "now", "well".
    Courtesy,
    /// Says no: "no", "cancel it", "not now".
    No,
    /// Introduces a wish, which then has to be what was offered: "I'd like to", "go ahead and".
    Lead,
    /// Introduces a refusal, after which the act may be named: "I don't want to".
    NoLead,
    /// "That's all": yes to a list of details, no to "anything else?".
    Enough,
    /// May follow a no, and changes nothing about it: "for now", "I was just looking".
    Aside,
    /// Has a meaning only if a yes or a filler precedes it: "confirm it".
    After,
    /// Looks like a yes but is none: irony, a shrug, a request for information.
    Doubt,
    /// Repeated words of the offer.
    Echo,
    /// Repeated words of the offer that name the act itself.
    EchoAct,
}

impl PieceKind {
    const NAMES: [(&str, PieceKind); 14] = [
        ("yes", PieceKind::Yes),
        ("fine", PieceKind::Fine),
        ("ok", PieceKind::Ok),
        ("praise", PieceKind::Praise),
        ("please", PieceKind::Please),
        ("thanks", PieceKind::Thanks),
        ("courtesy", PieceKind::Courtesy),
        ("no", PieceKind::No),
        ("lead", PieceKind::Lead),
        ("nolead", PieceKind::NoLead),
        ("enough", PieceKind::Enough),
        ("aside", PieceKind::Aside),
        ("after", PieceKind::After),
        ("doubt", PieceKind::Doubt),
    ];

    /// All kinds, in the order of their bits in [`Kinds`].
    pub(super) const ALL: [PieceKind; 16] = [
        PieceKind::Yes,
        PieceKind::Fine,
        PieceKind::Ok,
        PieceKind::Praise,
        PieceKind::Please,
        PieceKind::Thanks,
        PieceKind::Courtesy,
        PieceKind::No,
        PieceKind::Lead,
        PieceKind::NoLead,
        PieceKind::Enough,
        PieceKind::Aside,
        PieceKind::After,
        PieceKind::Doubt,
        PieceKind::Echo,
        PieceKind::EchoAct,
    ];

    /// Returns the kind for the table section of this name; `None` if there is no such kind.
    pub(super) fn named(name: &str) -> Option<PieceKind> {
        let found = PieceKind::NAMES.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, kind)| kind)
    }

    /// Returns true if pieces of this kind are reported as the words that decided.
    pub(super) fn decides(self) -> bool {
        !matches!(self, PieceKind::Thanks | PieceKind::Courtesy | PieceKind::Aside)
    }
}

/// A set of kinds, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds(u16);

impl Kinds {
    pub(super) const NONE: Kinds = Kinds(0);

    pub(super) fn with(self, kind: PieceKind) -> Kinds {
        Kinds(self.0 | (1 << kind as u16))
    }

    pub(super) fn has(self, kind: PieceKind) -> bool {
        self.0 & (1 << kind as u16) != 0
    }

    pub(super) fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    pub(super) fn iter(self) -> impl Iterator<Item = PieceKind> {
        PieceKind::ALL.into_iter().filter(move |kind| self.has(*kind))
    }
}

/// State of a reply after some of its pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyState {
    /// Nothing relevant was said.
    Start,
    /// Only a "please".
    Please,
    /// Only thanks.
    Thanks,
    /// A filler such as "ok".
    Ok,
    Praise,
    /// A filler or praise, with thanks: perhaps only a farewell.
    ThankedOk,
    /// An acceptance such as "that's fine".
    Fine,
    Yes,
    /// A yes with words of the offer. More of them might be a second, different wish.
    Echoed,
    No,
    /// A wish whose object has not been named yet.
    Led,
    /// A yes, then a wish whose object has not been named yet.
    YesLed,
    /// A no, after which the refused act may be named.
    NoLed,
    /// "That's all".
    Enough,
    /// A doubt was expressed: whatever follows, the reply is not a yes.
    Doubt,
}

impl ReplyState {
    pub(super) const ALL: [ReplyState; 15] = [
        ReplyState::Start,
        ReplyState::Please,
        ReplyState::Thanks,
        ReplyState::Ok,
        ReplyState::Praise,
        ReplyState::ThankedOk,
        ReplyState::Fine,
        ReplyState::Yes,
        ReplyState::Echoed,
        ReplyState::No,
        ReplyState::Led,
        ReplyState::YesLed,
        ReplyState::NoLed,
        ReplyState::Enough,
        ReplyState::Doubt,
    ];

    /// Returns the state after one more piece, or `None` if the piece makes no sense there.
    pub(super) fn after(self, kind: PieceKind) -> Option<ReplyState> {
        use ReplyState as S;
        Some(match (self, kind) {
            (S::Doubt, _) | (_, PieceKind::Doubt) => S::Doubt,

            // A wish has to name what was offered.
            (S::Led, PieceKind::EchoAct) | (S::YesLed, PieceKind::Echo | PieceKind::EchoAct) => S::Echoed,
            (state @ (S::Led | S::YesLed), PieceKind::Please | PieceKind::Courtesy) => state,
            (S::Led | S::YesLed, _) => return None,

            // A no stays a no: softening words do not reverse it.
            (S::NoLed, PieceKind::Echo | PieceKind::EchoAct) => S::No,
            (S::No | S::NoLed, PieceKind::No) => S::No,
            (S::No | S::NoLed, PieceKind::NoLead) => S::NoLed,
            (
                S::No | S::NoLed,
                PieceKind::Ok
                | PieceKind::Fine
                | PieceKind::Praise
                | PieceKind::Please
                | PieceKind::Thanks
                | PieceKind::Courtesy
                | PieceKind::Enough
                | PieceKind::Aside,
            ) => S::No,
            (S::No | S::NoLed, _) => return None,

            // After a yes, a no makes the reply unreadable.
            (S::Yes | S::Echoed | S::Fine, PieceKind::No | PieceKind::NoLead | PieceKind::Aside) => {
                return None;
            }
            // "Yeah, that's all for today" is a farewell.
            (S::Yes | S::Echoed, PieceKind::Enough) => return None,
            (S::Yes | S::Echoed, PieceKind::Lead) => S::YesLed,
            (S::Yes, PieceKind::Echo | PieceKind::EchoAct) => S::Echoed,
            (S::Echoed | S::Fine, PieceKind::Echo) | (S::Echoed, PieceKind::EchoAct) => return None,
            (state @ (S::Yes | S::Echoed), _) => state,
            (S::Fine, PieceKind::Yes | PieceKind::After) => S::Yes,
            (S::Fine, PieceKind::EchoAct) => S::Echoed,
            (S::Fine, PieceKind::Lead) => S::Led,
            // "That's fine, that's all I needed" approves nothing.
            (S::Fine, PieceKind::Enough) => S::Enough,
            (S::Fine, _) => S::Fine,

            (
                S::Enough,
                PieceKind::Thanks
                | PieceKind::Courtesy
                | PieceKind::Please
                | PieceKind::Ok
                | PieceKind::Praise,
            ) => S::Enough,
            (S::Enough, PieceKind::Enough | PieceKind::Aside) => S::Enough,
            (S::Enough, PieceKind::Yes) => S::Yes,
            (S::Enough, PieceKind::No) => S::No,
            (S::Enough, PieceKind::NoLead) => S::NoLed,
            (S::Enough, _) => return None,

            // In the remaining states nothing is decided yet.
            (_, PieceKind::Yes) => S::Yes,
            (_, PieceKind::EchoAct) => S::Echoed,
            (_, PieceKind::Fine) => S::Fine,
            (_, PieceKind::No) => S::No,
            (_, PieceKind::Lead) => S::Led,
            (_, PieceKind::NoLead) => S::NoLed,
            (S::Please, PieceKind::Enough) => return None,
            (_, PieceKind::Enough) => S::Enough,
            (S::Ok | S::Praise | S::ThankedOk, PieceKind::After) => S::Yes,
            (_, PieceKind::Echo | PieceKind::Aside | PieceKind::After) => return None,
            (state, PieceKind::Courtesy) => state,
            (S::Start | S::Thanks | S::Please, PieceKind::Please) => S::Please,
            (S::Please, PieceKind::Thanks) => S::Please,
            (S::Start | S::Thanks, PieceKind::Thanks) => S::Thanks,
            (S::Thanks, PieceKind::Ok | PieceKind::Praise) => S::ThankedOk,
            (S::Start | S::Please | S::Ok, PieceKind::Ok) => S::Ok,
            (S::Praise, PieceKind::Ok) => S::Praise,
            (S::Start | S::Please | S::Ok | S::Praise, PieceKind::Praise) => S::Praise,
            (S::Ok | S::Praise | S::ThankedOk, PieceKind::Thanks) => S::ThankedOk,
            (S::ThankedOk, PieceKind::Ok | PieceKind::Praise) => S::ThankedOk,
            (state @ (S::Ok | S::Praise | S::ThankedOk), PieceKind::Please) => state,
        })
    }
}

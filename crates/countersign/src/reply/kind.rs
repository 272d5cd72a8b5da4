//! The kinds of piece a reply is made of, and what they add up to.
//!
//! Enters: pieces in the order in which they were said. Leaves: where the reply stands. The whole rule is one table,
//! [`Stand::after`]: a kind that does not fit where the reply stands makes the whole reply unread.

/// What a piece of a reply does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Says yes: "yes", "that is correct", "go ahead".
    Yes,
    /// Says that it is well: "sounds good", "that's fine". After a no it only softens the no.
    Fine,
    /// A filler that lets things happen: "ok", "alright", a thumb.
    Ok,
    /// Praise, an answer only where something was offered: "great", "perfect".
    Praise,
    /// "Please".
    Please,
    /// "Thank you".
    Thanks,
    /// Greetings, names for the other side, "now", "well".
    Courtesy,
    /// Says no: "no", "cancel it", "not now".
    No,
    /// Asks for something, which must then be what was offered: "I'd like to", "go ahead and".
    Lead,
    /// Refuses something, which may then be named: "I don't want to".
    NoLead,
    /// "That's all": yes to a list of details, no to "anything else?".
    Enough,
    /// What may follow a no: "for now", "I was just looking".
    Aside,
    /// What means something only behind a yes: "confirm it".
    After,
    /// Looks like a yes and is none: irony, a shrug, a request to be told something.
    Doubt,
    /// Words of the offer, said again.
    Echo,
    /// Words of the offer that name the act itself.
    EchoAct,
}

impl Kind {
    const NAMES: [(&str, Kind); 14] = [
        ("yes", Kind::Yes),
        ("fine", Kind::Fine),
        ("ok", Kind::Ok),
        ("praise", Kind::Praise),
        ("please", Kind::Please),
        ("thanks", Kind::Thanks),
        ("courtesy", Kind::Courtesy),
        ("no", Kind::No),
        ("lead", Kind::Lead),
        ("nolead", Kind::NoLead),
        ("enough", Kind::Enough),
        ("aside", Kind::Aside),
        ("after", Kind::After),
        ("doubt", Kind::Doubt),
    ];

    /// All kinds, in order.
    pub(super) const ALL: [Kind; 16] = [
        Kind::Yes,
        Kind::Fine,
        Kind::Ok,
        Kind::Praise,
        Kind::Please,
        Kind::Thanks,
        Kind::Courtesy,
        Kind::No,
        Kind::Lead,
        Kind::NoLead,
        Kind::Enough,
        Kind::Aside,
        Kind::After,
        Kind::Doubt,
        Kind::Echo,
        Kind::EchoAct,
    ];

    /// The kind whose patterns stand in the section of this name.
    pub(super) fn named(name: &str) -> Option<Kind> {
        let found = Kind::NAMES.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, kind)| kind)
    }

    /// Whether a reply is decided by pieces of this kind.
    pub(super) fn decides(self) -> bool {
        !matches!(self, Kind::Thanks | Kind::Courtesy | Kind::Aside)
    }
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds(u16);

impl Kinds {
    pub(super) const NONE: Kinds = Kinds(0);

    pub(super) fn with(self, kind: Kind) -> Kinds {
        Kinds(self.0 | (1 << kind as u16))
    }

    pub(super) fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u16) != 0
    }

    pub(super) fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |kind| self.has(*kind))
    }
}

/// Where a reply stands after some of its pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// Nothing was said that matters.
    Start,
    /// Only a please.
    Please,
    /// Only thanks.
    Thanks,
    /// A filler.
    Ok,
    /// Praise.
    Praise,
    /// A filler or praise, with thanks: perhaps only a farewell.
    ThankedOk,
    /// It is well.
    Fine,
    /// Yes.
    Yes,
    /// Yes, with words of the offer. More of them would be a second, perhaps another, wish.
    Echoed,
    /// No.
    No,
    /// Asked for something that is still to be named.
    Led,
    /// Said yes, and asks for something that is still to be named.
    YesLed,
    /// No, and what is refused may be named.
    NoLed,
    /// "That's all".
    Enough,
    /// Something was said that makes a yes doubtful, whatever else was said.
    Doubt,
}

impl Stand {
    pub(super) const ALL: [Stand; 15] = [
        Stand::Start,
        Stand::Please,
        Stand::Thanks,
        Stand::Ok,
        Stand::Praise,
        Stand::ThankedOk,
        Stand::Fine,
        Stand::Yes,
        Stand::Echoed,
        Stand::No,
        Stand::Led,
        Stand::YesLed,
        Stand::NoLed,
        Stand::Enough,
        Stand::Doubt,
    ];

    /// Where the reply stands after one more piece; nothing where that piece makes no sense.
    pub(super) fn after(self, kind: Kind) -> Option<Stand> {
        use Stand as S;
        Some(match (self, kind) {
            (S::Doubt, _) | (_, Kind::Doubt) => S::Doubt,

            // What was asked for must be named, and be what was offered.
            (S::Led, Kind::EchoAct) | (S::YesLed, Kind::Echo | Kind::EchoAct) => S::Echoed,
            (stand @ (S::Led | S::YesLed), Kind::Please | Kind::Courtesy) => stand,
            (S::Led | S::YesLed, _) => return None,

            // A no stays a no; what softens it does not turn it.
            (S::NoLed, Kind::Echo | Kind::EchoAct) => S::No,
            (S::No | S::NoLed, Kind::No) => S::No,
            (S::No | S::NoLed, Kind::NoLead) => S::NoLed,
            (
                S::No | S::NoLed,
                Kind::Ok
                | Kind::Fine
                | Kind::Praise
                | Kind::Please
                | Kind::Thanks
                | Kind::Courtesy
                | Kind::Enough
                | Kind::Aside,
            ) => S::No,
            (S::No | S::NoLed, _) => return None,

            // A yes is not followed by a no.
            (S::Yes | S::Echoed | S::Fine, Kind::No | Kind::NoLead | Kind::Aside) => return None,
            // "Yeah, that's all for today" is a farewell.
            (S::Yes | S::Echoed, Kind::Enough) => return None,
            (S::Yes | S::Echoed, Kind::Lead) => S::YesLed,
            (S::Yes, Kind::Echo | Kind::EchoAct) => S::Echoed,
            (S::Echoed | S::Fine, Kind::Echo) | (S::Echoed, Kind::EchoAct) => return None,
            (stand @ (S::Yes | S::Echoed), _) => stand,
            (S::Fine, Kind::Yes | Kind::After) => S::Yes,
            (S::Fine, Kind::EchoAct) => S::Echoed,
            (S::Fine, Kind::Lead) => S::Led,
            // "That's fine, that's all I needed" lets nothing happen.
            (S::Fine, Kind::Enough) => S::Enough,
            (S::Fine, _) => S::Fine,

            (S::Enough, Kind::Thanks | Kind::Courtesy | Kind::Please | Kind::Ok | Kind::Praise) => S::Enough,
            (S::Enough, Kind::Enough | Kind::Aside) => S::Enough,
            (S::Enough, Kind::Yes) => S::Yes,
            (S::Enough, Kind::No) => S::No,
            (S::Enough, Kind::NoLead) => S::NoLed,
            (S::Enough, _) => return None,

            // From here on nothing is decided yet.
            (_, Kind::Yes) => S::Yes,
            (_, Kind::EchoAct) => S::Echoed,
            (_, Kind::Fine) => S::Fine,
            (_, Kind::No) => S::No,
            (_, Kind::Lead) => S::Led,
            (_, Kind::NoLead) => S::NoLed,
            (S::Please, Kind::Enough) => return None,
            (_, Kind::Enough) => S::Enough,
            (S::Ok | S::Praise | S::ThankedOk, Kind::After) => S::Yes,
            (_, Kind::Echo | Kind::Aside | Kind::After) => return None,
            (stand, Kind::Courtesy) => stand,
            (S::Start | S::Thanks | S::Please, Kind::Please) => S::Please,
            (S::Please, Kind::Thanks) => S::Please,
            (S::Start | S::Thanks, Kind::Thanks) => S::Thanks,
            (S::Thanks, Kind::Ok | Kind::Praise) => S::ThankedOk,
            (S::Start | S::Please | S::Ok, Kind::Ok) => S::Ok,
            (S::Praise, Kind::Ok) => S::Praise,
            (S::Start | S::Please | S::Ok | S::Praise, Kind::Praise) => S::Praise,
            (S::Ok | S::Praise | S::ThankedOk, Kind::Thanks) => S::ThankedOk,
            (S::ThankedOk, Kind::Ok | Kind::Praise) => S::ThankedOk,
            (stand @ (S::Ok | S::Praise | S::ThankedOk), Kind::Please) => stand,
        })
    }
}

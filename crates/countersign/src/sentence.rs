//! What a channel says: a small catalogue of sentences, each one replaceable.
//!
//! Enters: facts that are safe to show. Leaves: one short line for a person. Deliberately absent: ids, arguments and
//! the model's own words.

mod origin;
mod reason;

pub use origin::Origins;
pub use reason::Reasons;

/// The sentences of one language. `{what}` stands for what is being asked, `{yes}` and `{no}` for the labels,
/// `{result}` for what a call answered, `{why}` for a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentences {
    /// The language these are in, as replies are read: `en`.
    pub language: String,
    /// The question under a card.
    pub ask: String,
    /// The question under a card that does not fit: `{missing}` says how much, `{where}` where all of it is.
    pub part: String,
    /// How much of a single call is missing: `{bytes}`.
    pub missing_bytes: String,
    /// How much of several calls is missing: something of `{calls}` of `{total}`, in all `{bytes}`.
    pub missing_calls: String,
    /// Before a line that is so of each of several calls.
    pub each: String,
    /// The answer to a yes where part of the card is missing; `{where}` all of it is.
    pub incomplete: String,
    /// Several calls in one question; `{count}` of them.
    pub several: String,
    /// The approving label, where the policy names none.
    pub yes: String,
    /// The denying label, where the policy names none.
    pub no: String,
    /// It ran.
    pub done: String,
    /// It was approved and somebody else runs it.
    pub approved: String,
    /// It was endorsed, and somebody else has to agree.
    pub endorsed: String,
    /// It ran and failed.
    pub failed: String,
    /// It was started, and nobody knows how it ended.
    pub unknown: String,
    /// A no.
    pub cancelled: String,
    /// Another message came instead of an answer.
    pub cancelled_by_other: String,
    /// No answer came in time.
    pub expired: String,
    /// Another message came, and the question stands.
    pub kept: String,
    /// A yes to something that is not asked any more.
    pub show_again: String,
    /// An "ok" where a yes is needed.
    pub too_little: String,
    /// The same for what cannot be undone.
    pub too_little_for_ever: String,
    /// How some of several calls are chosen.
    pub some: String,
    /// The decision came too late, or was not theirs.
    pub refused: String,
    /// One of several calls that was not approved.
    pub left_out: String,
    /// One of several calls that was approved, and was not run because of another.
    pub not_run: String,
    /// "Undo that", where nothing was done.
    pub nothing_to_undo: String,
    /// "Undo that", where it cannot be.
    pub cannot_undo: String,
    /// One of several calls that an undo leaves as it is.
    pub not_undone: String,
    /// Why there is no undo, where the policy declares none.
    pub no_undo: String,
    /// Where a call's values came from.
    pub origins: Origins,
    /// Why something is not so.
    pub reasons: Reasons,
}

impl Sentences {
    /// English.
    pub fn english() -> Sentences {
        Sentences {
            language: "en".to_owned(),
            ask: "{what}\n-- reply \"{yes}\" to confirm or \"{no}\" to cancel.".to_owned(),
            part: "-- {missing}, so it cannot be approved here. See all of it and decide with {where}; or reply \"{no}\" \
                   to cancel."
                .to_owned(),
            missing_bytes: "{bytes} bytes of this card are not shown".to_owned(),
            missing_calls: "{calls} of {total} calls ({bytes} bytes) of this card are not shown in full".to_owned(),
            each: "each of them:".to_owned(),
            incomplete: "Nothing was decided: part of this card is not shown here. See all of it and decide with {where}."
                .to_owned(),
            several: "{count} actions:".to_owned(),
            yes: "yes".to_owned(),
            no: "no".to_owned(),
            done: "Done! {what}".to_owned(),
            approved: "Approved: {what}".to_owned(),
            endorsed: "Noted. Somebody else has to agree as well: {what}".to_owned(),
            failed: "That did not work: {what}".to_owned(),
            unknown: "Started, but it is not known how it ended: {what}. It will not be run again by itself."
                .to_owned(),
            cancelled: "Cancelled.".to_owned(),
            cancelled_by_other: "Cancelled, because you went on to something else: {what}".to_owned(),
            expired: "Nobody answered in time, so nothing was done: {what}".to_owned(),
            kept: "Still waiting for your answer.".to_owned(),
            show_again: "That was not about this. Please look again:".to_owned(),
            too_little: "That is too little for this. Please say \"{yes}\" or \"{no}\".".to_owned(),
            too_little_for_ever: "This cannot be taken back. Please say \"{yes}\" or \"{no}\".".to_owned(),
            some: "leaves one out; or say \"all but the first\"".to_owned(),
            refused: "Nothing was done: {why}.".to_owned(),
            left_out: "Left out: {what}".to_owned(),
            not_run: "Not run: {what}".to_owned(),
            nothing_to_undo: "There is nothing here to undo.".to_owned(),
            cannot_undo: "That cannot be undone: {why}.".to_owned(),
            not_undone: "This cannot be undone: {what} ({why})".to_owned(),
            no_undo: "there is no way back".to_owned(),
            origins: Origins::english(),
            reasons: Reasons::english(),
        }
    }

    /// Spanish.
    pub fn spanish() -> Sentences {
        Sentences {
            language: "es".to_owned(),
            ask: "{what}\n-- responde \"{yes}\" para confirmar o \"{no}\" para cancelar.".to_owned(),
            part: "-- {missing}, así que no se puede aprobar aquí. Míralo entero y decide con {where}; o responde \"{no}\" \
                   para cancelar."
                .to_owned(),
            missing_bytes: "{bytes} bytes de esta tarjeta no se muestran".to_owned(),
            missing_calls: "{calls} de {total} acciones ({bytes} bytes) de esta tarjeta no se muestran enteras".to_owned(),
            each: "cada una:".to_owned(),
            incomplete: "No se ha decidido nada: aquí no se muestra toda la tarjeta. Mírala entera y decide con {where}."
                .to_owned(),
            several: "{count} acciones:".to_owned(),
            yes: "sí".to_owned(),
            no: "no".to_owned(),
            done: "¡Listo! {what}".to_owned(),
            approved: "Aprobado: {what}".to_owned(),
            endorsed: "Anotado. Otra persona también tiene que estar de acuerdo: {what}".to_owned(),
            failed: "No ha funcionado: {what}".to_owned(),
            unknown: "Empezó, pero no se sabe cómo terminó: {what}. No se repetirá por sí solo.".to_owned(),
            cancelled: "Cancelado.".to_owned(),
            cancelled_by_other: "Cancelado, porque has pasado a otra cosa: {what}".to_owned(),
            expired: "Nadie contestó a tiempo, así que no se ha hecho nada: {what}".to_owned(),
            kept: "Sigo esperando tu respuesta.".to_owned(),
            show_again: "Eso no era sobre esto. Míralo otra vez, por favor:".to_owned(),
            too_little: "Con eso no basta. Di \"{yes}\" o \"{no}\", por favor.".to_owned(),
            too_little_for_ever: "Esto no se puede deshacer. Di \"{yes}\" o \"{no}\", por favor.".to_owned(),
            some: "deja una fuera; o di \"todas menos la primera\"".to_owned(),
            refused: "No se ha hecho nada: {why}.".to_owned(),
            left_out: "Sin hacer: {what}".to_owned(),
            not_run: "No se ha ejecutado: {what}".to_owned(),
            nothing_to_undo: "Aquí no hay nada que deshacer.".to_owned(),
            cannot_undo: "Eso no se puede deshacer: {why}.".to_owned(),
            not_undone: "Esto no se puede deshacer: {what} ({why})".to_owned(),
            no_undo: "no hay vuelta atrás".to_owned(),
            origins: Origins::spanish(),
            reasons: Reasons::spanish(),
        }
    }

    /// The catalogue for a person's language; English where there is none.
    pub fn for_language(tag: &str) -> Sentences {
        match tag.get(..2).map(str::to_ascii_lowercase).as_deref() {
            Some("es") => Sentences::spanish(),
            _ => Sentences::english(),
        }
    }
}

/// Puts values into a sentence. A value is never looked at for further places, so what others wrote cannot add one.
pub fn fill(sentence: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(sentence.len());
    let mut rest = sentence;
    while let Some(start) = rest.find('{') {
        let (before, from) = rest.split_at(start);
        filled.push_str(before);
        let place = values.iter().find(|(name, _)| {
            from.get(1..)
                .is_some_and(|inner| inner.starts_with(&format!("{name}}}")))
        });
        match place {
            Some((name, value)) => {
                filled.push_str(value);
                rest = from.get(name.len() + 2..).unwrap_or_default();
            }
            None => {
                filled.push('{');
                rest = from.get(1..).unwrap_or_default();
            }
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x39_what_others_wrote_fills_no_further_place() {
        let filled = fill("{what}: {yes}", &[("what", "{yes} {no}"), ("yes", "Create")]);
        assert_eq!(filled, "{yes} {no}: Create");
        assert_eq!(fill("a { b } {unknown}", &[("what", "x")]), "a { b } {unknown}");
    }

    #[test]
    fn a_spanish_talk_has_spanish_reasons() {
        use crate::decision::Refusal;
        use crate::id::{ApprovalId, Person};
        use crate::state::State;
        use crate::time::Time;
        let refusal = Refusal::AlreadyDecided {
            id: ApprovalId::from_bytes([7; 16]),
            state: State::Denied,
            by: Person::new("ana").unwrap(),
            at: Time::from_micros(0),
        };
        let spanish = Sentences::spanish().reasons;
        assert_eq!(spanish.refusal(&refusal), "ya estaba rechazado; lo decidió `ana`");
        assert_eq!(spanish.undone("undone"), "ya está deshecho");
        let english = Sentences::english().reasons;
        assert_eq!(english.refusal(&refusal), refusal.to_string());
        assert_eq!(english.undone("undone"), "it is undone");
    }

    #[test]
    fn every_language_has_its_own_catalogue() {
        assert_eq!(Sentences::for_language("es-MX"), Sentences::spanish());
        assert_eq!(Sentences::for_language("EN"), Sentences::english());
        assert_eq!(Sentences::for_language("ü"), Sentences::english());
    }
}

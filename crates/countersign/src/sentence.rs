//! Catalogue of the sentences that a channel shows to people; each one can be replaced.
//!
//! The sentences are filled with facts that are escaped for display. They contain no ids, no arguments and none of the
//! model's own words.

mod origin;
mod reason;

pub use origin::Origins;
pub use reason::Reasons;

#[cfg(feature = "reply")]
use crate::reply;

/// The sentences of one language. Placeholders: `{what}` is the summary of the calls, `{yes}` and `{no}` are the
/// labels, `{why}` is a reason; others are listed with their sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentences {
    /// Language in which replies are interpreted, such as `en`.
    pub language: String,
    /// Question below a card.
    pub ask: String,
    /// Question below a card that does not fit; `{missing}` says how much is left out, `{where}` where to see the whole
    /// card.
    pub truncated_ask: String,
    /// How much of a single call is left out: `{bytes}`.
    pub missing_bytes: String,
    /// How much of several calls is left out: parts of `{calls}` of `{total}` calls, `{bytes}` in all.
    pub missing_calls: String,
    /// Prefix of a line that applies to each of several calls.
    pub each_prefix: String,
    /// Response to a yes when part of the card was not shown; `{where}` says where to see the whole card.
    pub incomplete: String,
    /// Heading of a card with `{count}` calls.
    pub several: String,
    /// Default label for approving.
    pub yes: String,
    /// Default label for denying.
    pub no: String,
    /// Shown when a call succeeded.
    pub done: String,
    /// Shown when the calls were approved but have not run here.
    pub approved: String,
    /// Shown when a person approved and others still have to.
    pub endorsed: String,
    /// Shown when a call ran and failed.
    pub failed: String,
    /// Shown when a call was started and its outcome is unknown.
    pub unknown: String,
    /// Shown when a person denies the approval.
    pub cancelled: String,
    /// Shown when another message cancelled the pending approval.
    pub cancelled_by_other: String,
    /// Shown when the approval expired.
    pub expired: String,
    /// Shown when another message came and the approval stays pending.
    pub kept: String,
    /// Shown before the card when a yes did not refer to the pending card.
    pub show_again: String,
    /// Response to a filler such as "ok" where an explicit yes is needed.
    pub too_little: String,
    /// Response to a reply that can be read in more than one way.
    pub unclear: String,
    /// Response to a reply that seems to name some of several calls by a bare number.
    pub which_ones: String,
    /// Response to a reply that names calls by numbers that are also values on the card.
    pub which_places: String,
    /// The same as `too_little`, for calls that cannot be undone.
    pub too_little_irreversible: String,
    /// Explains how to approve only some of several calls.
    pub partial_hint: String,
    /// Shown when a decision was refused.
    pub refused: String,
    /// Response to the answer of a `{sender}` whom the service does not know.
    pub unknown_sender: String,
    /// Response to the answer of a `{person}` who is not one of the approvers.
    pub not_an_approver: String,
    /// Line for each denied call of an approval with several calls.
    pub left_out: String,
    /// Shown when a call was approved but not run.
    pub not_run: String,
    /// Adds a tool's own words to how its call ended: `{outcome}`, `{words}`.
    pub tool_words: String,
    /// Response to an undo request when there is nothing to undo.
    pub nothing_to_undo: String,
    /// Response to an undo request that cannot be fulfilled.
    pub cannot_undo: String,
    /// Line for each call that an undo of several calls cannot revert.
    pub not_undone: String,
    /// Reason given when the policy declares no undo.
    pub no_undo: String,
    /// Wording for the provenance of values.
    pub origins: Origins,
    /// Wording of reasons for refusals.
    pub reasons: Reasons,
}

impl Sentences {
    /// Returns the English catalogue.
    pub fn english() -> Sentences {
        Sentences {
            language: "en".to_owned(),
            ask: "{what}\n-- reply \"{yes}\" to confirm or \"{no}\" to cancel.".to_owned(),
            truncated_ask: "-- {missing}, so it cannot be approved here. See all of it and decide with {where}; or reply \"{no}\" \
                   to cancel."
                .to_owned(),
            missing_bytes: "{bytes} bytes of this card are not shown".to_owned(),
            missing_calls: "{calls} of {total} calls ({bytes} bytes) of this card are not shown in full".to_owned(),
            each_prefix: "each of them:".to_owned(),
            incomplete: "Nothing was decided: part of this card is not shown here. See all of it and decide with {where}."
                .to_owned(),
            several: "{count} actions:".to_owned(),
            yes: "yes".to_owned(),
            no: "no".to_owned(),
            done: "Done! {what}".to_owned(),
            approved: "Approved: {what}".to_owned(),
            endorsed: "Noted. Another person has to approve this, too: {what}".to_owned(),
            failed: "That did not work: {what}".to_owned(),
            unknown: "Started, but the outcome is unknown: {what}. It will not run again by itself."
                .to_owned(),
            cancelled: "Cancelled.".to_owned(),
            cancelled_by_other: "Cancelled, because you changed the subject: {what}".to_owned(),
            expired: "Nobody answered in time, so nothing was done: {what}".to_owned(),
            kept: "Still waiting for your answer.".to_owned(),
            show_again: "That was not about this. Please look again:".to_owned(),
            too_little: "That is not clear enough for this. Please say \"{yes}\" or \"{no}\".".to_owned(),
            unclear: "That could mean more than one thing. Please say \"{yes}\" or \"{no}\".".to_owned(),
            which_ones: "Which ones? Please name them by their numbers, as in \"all but number 2\" or \"only 1 and 3\"."
                .to_owned(),
            which_places: "Which ones? Such a number is also a value here. Please say \"only action 1\" or \"all but action 2\"."
                .to_owned(),
            too_little_irreversible: "This cannot be undone. Please say \"{yes}\" or \"{no}\".".to_owned(),
            partial_hint: "leaves one out; or say \"all but the first\"".to_owned(),
            refused: "Nothing was done: {why}.".to_owned(),
            unknown_sender: "Nothing was decided: this service does not know who \"{sender}\" is. Ask an operator to link this \
                   sender to your account, then answer again."
                .to_owned(),
            not_an_approver: "Nothing was decided: {person} may not decide this. Ask one of its approvers.".to_owned(),
            left_out: "Left out: {what}".to_owned(),
            not_run: "Not run: {what}".to_owned(),
            tool_words: "{outcome}\nThe tool says: {words}".to_owned(),
            nothing_to_undo: "There is nothing here to undo.".to_owned(),
            cannot_undo: "That cannot be undone: {why}.".to_owned(),
            not_undone: "This cannot be undone: {what} ({why})".to_owned(),
            no_undo: "there is no way back".to_owned(),
            origins: Origins::english(),
            reasons: Reasons::english(),
        }
    }

    /// Returns the Spanish catalogue.
    pub fn spanish() -> Sentences {
        Sentences {
            language: "es".to_owned(),
            ask: "{what}\n-- responde \"{yes}\" para confirmar o \"{no}\" para cancelar.".to_owned(),
            truncated_ask: "-- {missing}, así que no se puede aprobar aquí. Míralo entero y decide con {where}; o responde \"{no}\" \
                   para cancelar."
                .to_owned(),
            missing_bytes: "{bytes} bytes de esta tarjeta no se muestran".to_owned(),
            missing_calls: "{calls} de {total} acciones ({bytes} bytes) de esta tarjeta no se muestran enteras".to_owned(),
            each_prefix: "cada una:".to_owned(),
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
            unclear: "Eso se puede entender de varias maneras. Di \"{yes}\" o \"{no}\", por favor.".to_owned(),
            which_ones: "¿Cuáles? Di sus números, por favor: \"todas menos la número 2\" o \"solo 1 y 3\".".to_owned(),
            which_places: "¿Cuáles? Ese número también es un valor aquí. Di \"solo la acción 1\" o \"todas menos la acción 2\", por favor."
                .to_owned(),
            too_little_irreversible: "Esto no se puede deshacer. Di \"{yes}\" o \"{no}\", por favor.".to_owned(),
            partial_hint: "deja una fuera; o di \"todas menos la primera\"".to_owned(),
            refused: "No se ha hecho nada: {why}.".to_owned(),
            unknown_sender: "No se ha decidido nada: este servicio no sabe quién es \"{sender}\". Pide a un operador que \
                   vincule este remitente a tu cuenta y responde otra vez."
                .to_owned(),
            not_an_approver: "No se ha decidido nada: {person} no puede decidirlo. Pídeselo a quien pueda aprobarlo."
                .to_owned(),
            left_out: "Sin hacer: {what}".to_owned(),
            not_run: "No se ha ejecutado: {what}".to_owned(),
            tool_words: "{outcome}\nLa herramienta dice: {words}".to_owned(),
            nothing_to_undo: "Aquí no hay nada que deshacer.".to_owned(),
            cannot_undo: "Eso no se puede deshacer: {why}.".to_owned(),
            not_undone: "Esto no se puede deshacer: {what} ({why})".to_owned(),
            no_undo: "no hay vuelta atrás".to_owned(),
            origins: Origins::spanish(),
            reasons: Reasons::spanish(),
        }
    }

    /// Returns the catalogue for a language tag; English if there is none.
    pub fn for_language(tag: &str) -> Sentences {
        match tag.get(..2).map(str::to_ascii_lowercase).as_deref() {
            Some("es") => Sentences::spanish(),
            _ => Sentences::english(),
        }
    }

    /// Sets the language in which replies are interpreted, if that language is supported.
    #[cfg(feature = "reply")]
    pub(crate) fn read_in(mut self, language: Option<&str>) -> Sentences {
        if let Some(tag) = language.filter(|tag| reply::can_read(tag)) {
            self.language = tag.to_ascii_lowercase();
        }
        self
    }
}

/// Fills the placeholders of a sentence. Values are inserted as they are: a placeholder inside a value is not filled.
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

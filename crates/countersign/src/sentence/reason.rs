//! Reasons for refusals, in a person's language.

use std::collections::HashMap;

use super::fill;
use crate::call::RefusalReason;
use crate::decision::Refusal;

/// Wording of reasons, by their code. A reason whose code has no entry is given in English, as for programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons(pub HashMap<String, String>);

impl Reasons {
    /// Returns the English wording. It has no entries, because reasons are in English by default.
    pub fn english() -> Reasons {
        Reasons::default()
    }

    /// Returns the Spanish wording.
    pub fn spanish() -> Reasons {
        let reasons = [
            ("not_found", "ya no existe"),
            ("already_decided", "ya estaba {state}; lo decidió `{by}`"),
            ("expired", "se acabó el tiempo"),
            ("superseded", "hay otra pregunta en su lugar"),
            ("withdrawn", "la pregunta se retiró"),
            ("stale", "la respuesta era para otra tarjeta"),
            (
                "incomplete",
                "ahí no se mostraba toda la tarjeta; ábrela entera y decide allí",
            ),
            (
                "concealed",
                "un secreto se repite en otro valor, que así no se puede mostrar; rechaza y pide que se proponga sin él",
            ),
            ("not_allowed", "`{person}` no puede decidirlo"),
            (
                "four_eyes",
                "lo pidió `{person}`, así que tiene que aprobarlo otra persona",
            ),
            ("surface_too_weak", "desde aquí no se puede aprobar"),
            (
                "already_endorsed",
                "`{person}` ya lo aprobó; falta la aprobación de otra persona",
            ),
            (
                "edit_not_alone",
                "tiene que verlo más de una persona, y no se puede cambiar",
            ),
            ("bad_choices", "la elección no corresponde a la tarjeta"),
            ("bad_edit", "el cambio no es válido: {reason}"),
            ("key_reused", "esa respuesta ya se usó para otra cosa"),
            ("approved", "aprobado"),
            ("denied", "rechazado"),
            ("changed", "lo que iba a cambiar ya no es lo que se mostró"),
            ("unreadable", "no se pudo volver a leer lo que iba a cambiar"),
            ("nothing_to_undo", "ya está deshecho, o se está deshaciendo"),
            ("undone", "ya está deshecho"),
            ("being undone", "ya se está deshaciendo"),
        ];
        let owned = reasons.map(|(code, reason)| (code.to_owned(), reason.to_owned()));
        Reasons(owned.into_iter().collect())
    }

    /// Returns the reason why a decision was refused, in this wording.
    pub fn refusal(&self, refusal: &Refusal) -> String {
        let Some(reason) = self.0.get(refusal.code()) else {
            return refusal.to_string();
        };
        match refusal {
            Refusal::AlreadyDecided { state, by, .. } => {
                let state = self.word(state.as_str());
                fill(reason, &[("state", &state), ("by", by.as_str())])
            }
            Refusal::NotAllowed { person, .. }
            | Refusal::FourEyes { person, .. }
            | Refusal::AlreadyEndorsed { person, .. } => fill(reason, &[("person", person.as_str())]),
            Refusal::BadEdit { reason: why, .. } => fill(reason, &[("reason", why)]),
            _ => reason.clone(),
        }
    }

    /// Returns the reason why a call did not run, in this wording.
    pub fn because(&self, because: &RefusalReason) -> String {
        let code = match because {
            RefusalReason::Changed => "changed",
            RefusalReason::Unreadable => "unreadable",
            RefusalReason::NothingToUndo => "nothing_to_undo",
            other => other.as_str(),
        };
        self.0
            .get(code)
            .cloned()
            .unwrap_or_else(|| because.as_str().to_owned())
    }

    /// Returns the reason why a call in this state cannot be undone, in this wording.
    pub fn undone(&self, state: &str) -> String {
        match self.0.get(state) {
            Some(reason) => reason.clone(),
            None => format!("it is {state}"),
        }
    }

    fn word(&self, word: &str) -> String {
        self.0.get(word).cloned().unwrap_or_else(|| word.to_owned())
    }
}

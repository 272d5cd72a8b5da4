//! Wording for the provenance of a call's values.

use crate::provenance::Mark;

/// Wording in one language. `{count}` and `{total}` are numbers, `{values}` is the singular or plural of "value" for
/// `{total}`, `{kinds}` is the list of kinds that follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origins {
    /// Used when a call has no values.
    pub none: String,
    /// Used when no conversation was given.
    pub unknown_whence: String,
    /// Used when the only value was given by the person.
    pub one_given: String,
    /// Used when all values were given by the person.
    pub all_given: String,
    /// Used for several calls when all their values were given by the person.
    pub all_given_in_all: String,
    /// Used when some values were given by the person and the other `{default}` are empty or defaults.
    pub rest_default: String,
    /// Used when one value was not given by the person.
    pub one_not_given: String,
    /// Used when several values were not given by the person.
    pub not_given: String,
    /// The word "value": singular, plural.
    pub values: [String; 2],
    /// Kind: stated by nobody (singular, plural).
    pub invented: [String; 2],
    /// Kind: possibly written by strangers (singular, plural).
    pub outside: [String; 2],
    /// Kind: from tool results (singular, plural).
    pub from_tools: [String; 2],
    /// Kind: derived from other values (singular, plural).
    pub derived: [String; 2],
    /// Kind: unknown (singular, plural).
    pub unknown: [String; 2],
    /// Used when the person's messages are missing: number of values found in tool results (singular, plural).
    pub found: [String; 2],
    /// Prefix of `{verdict}` when the agent itself supplied the conversation.
    pub as_told: String,
    /// Suffix used when the conversation was too long to be examined in full.
    pub partial: String,
    /// Line after the listed values, for values that the list leaves out.
    pub more: String,
    /// Label of a value that nobody stated.
    pub tag_invented: String,
    /// Label of a value that strangers may have written.
    pub tag_outside: String,
    /// Label of a value from a tool result.
    pub tag_tool: String,
    /// Label of a derived value.
    pub tag_derived: String,
    /// Label of a value of unknown origin.
    pub tag_unknown: String,
}

fn both(text: &str) -> [String; 2] {
    [text.to_owned(), text.to_owned()]
}

fn each(one: &str, several: &str) -> [String; 2] {
    [one.to_owned(), several.to_owned()]
}

impl Origins {
    /// Returns the mark to print before a value; `None` for values that the person stated and for empty values.
    pub fn tag(&self, mark: &Mark) -> Option<&str> {
        match mark {
            Mark::Invented { .. } => Some(&self.tag_invented),
            Mark::Tool(tool) if tool.is_outside => Some(&self.tag_outside),
            Mark::Tool(_) => Some(&self.tag_tool),
            Mark::Derived(_) => Some(&self.tag_derived),
            Mark::Unknown => Some(&self.tag_unknown),
            Mark::Person(_) | Mark::Default => None,
        }
    }

    /// Returns the English wording.
    pub fn english() -> Origins {
        Origins {
            none: "no values".to_owned(),
            unknown_whence: "where the values came from is unknown".to_owned(),
            one_given: "the one value was given by you".to_owned(),
            all_given: "all {total} values were given by you".to_owned(),
            all_given_in_all: "all values were given by you".to_owned(),
            rest_default: "{count} of {total} {values} given by you, {default} empty or default".to_owned(),
            one_not_given: "{count} of {total} {values} was not given by you: {kinds}".to_owned(),
            not_given: "{count} of {total} {values} were not given by you: {kinds}".to_owned(),
            values: each("value", "values"),
            invented: both("invented"),
            outside: both("from outside text"),
            from_tools: both("from tools"),
            derived: both("derived"),
            unknown: both("unknown"),
            found: each(
                "{count} of {total} {values} was found in a tool's answer; the person's own words were not seen here",
                "{count} of {total} {values} were found in tools' answers; the person's own words were not seen here",
            ),
            as_told: "as the agent tells it, {verdict}".to_owned(),
            partial: "; the conversation was too long to read in full".to_owned(),
            more: "… and {count} more values".to_owned(),
            tag_invented: "NOT FROM YOU".to_owned(),
            tag_outside: "FROM OUTSIDE".to_owned(),
            tag_tool: "from a tool".to_owned(),
            tag_derived: "derived".to_owned(),
            tag_unknown: "unknown".to_owned(),
        }
    }

    /// Returns the Spanish wording.
    pub fn spanish() -> Origins {
        Origins {
            none: "sin valores".to_owned(),
            unknown_whence: "no se sabe de dónde vienen los valores".to_owned(),
            one_given: "el único valor lo diste tú".to_owned(),
            all_given: "los {total} valores los diste tú".to_owned(),
            all_given_in_all: "todos los valores los diste tú".to_owned(),
            rest_default: "diste {count} de {total} {values}, {default} sin dato o por defecto".to_owned(),
            one_not_given: "{count} de {total} {values} no lo diste tú: {kinds}".to_owned(),
            not_given: "{count} de {total} {values} no los diste tú: {kinds}".to_owned(),
            values: each("valor", "valores"),
            invented: each("inventado", "inventados"),
            outside: both("de un texto ajeno"),
            from_tools: both("de las herramientas"),
            derived: each("deducido", "deducidos"),
            unknown: each("desconocido", "desconocidos"),
            found: each(
                "{count} de {total} {values} está en la respuesta de una herramienta; lo que dijo la persona no se vio aquí",
                "{count} de {total} {values} están en respuestas de herramientas; lo que dijo la persona no se vio aquí",
            ),
            as_told: "según cuenta el agente, {verdict}".to_owned(),
            partial: "; la conversación era demasiado larga para leerla entera".to_owned(),
            more: "… y {count} valores más".to_owned(),
            tag_invented: "NO ES TUYO".to_owned(),
            tag_outside: "DE FUERA".to_owned(),
            tag_tool: "de una herramienta".to_owned(),
            tag_derived: "deducido".to_owned(),
            tag_unknown: "desconocido".to_owned(),
        }
    }
}

//! Where a call's values came from, in a person's language.

use crate::provenance::Mark;

/// The words of one language. `{count}` and `{total}` stand for numbers, `{values}` for `value` or `values`, as `{total}`
/// has it, `{kinds}` for the kinds that follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origins {
    /// There is nothing to ask about.
    pub none: String,
    /// Nobody gave the conversation.
    pub unknown_whence: String,
    /// The only value is the person's.
    pub one_given: String,
    /// All of them are.
    pub all_given: String,
    /// All of them are, in all calls of several.
    pub all_given_in_all: String,
    /// Some are, and the others say nothing; `{default}` of them.
    pub rest_default: String,
    /// One is not.
    pub one_not_given: String,
    /// Several are not.
    pub not_given: String,
    /// What one value, and what several are called.
    pub values: [String; 2],
    /// What nobody stated: one, several.
    pub invented: [String; 2],
    /// What strangers may have written: one, several.
    pub outside: [String; 2],
    /// What tools answered: one, several.
    pub from_tools: [String; 2],
    /// What was made of something else: one, several.
    pub derived: [String; 2],
    /// What nobody can tell: one, several.
    pub unknown: [String; 2],
    /// What stands in tools' answers, where nobody heard the person: one, several.
    pub found: [String; 2],
    /// The agent itself supplied the conversation that `{verdict}` follows from.
    pub as_told: String,
    /// Not all of the conversation was read.
    pub partial: String,
    /// There are more values than are named.
    pub more: String,
    /// The mark before a value that nobody stated.
    pub tag_invented: String,
    /// The mark before a value that strangers may have written.
    pub tag_outside: String,
    /// The mark before a value that a tool answered.
    pub tag_tool: String,
    /// The mark before a value that was made of others.
    pub tag_derived: String,
    /// The mark before a value of which nobody can tell.
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

    /// English.
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
            partial: "; the conversation was too long to be read whole".to_owned(),
            more: "… and {count} more values".to_owned(),
            tag_invented: "NOT FROM YOU".to_owned(),
            tag_outside: "FROM OUTSIDE".to_owned(),
            tag_tool: "from a tool".to_owned(),
            tag_derived: "derived".to_owned(),
            tag_unknown: "unknown".to_owned(),
        }
    }

    /// Spanish.
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

//! Finds names of files in a text, which may be a path, a filter or a shell command.
//!
//! Everything that can be a path is returned: the text itself, its words as they are written, and its words as a POSIX
//! shell reads them, without quotes and backslashes. Variables, substitutions and wildcards are not resolved, because
//! only a shell can do that. A command that uses a variable or a substitution, or that changes its folder, counts as
//! unsure.

use std::collections::HashSet;

/// Maximum length in bytes of a text that is searched for names.
pub const LONGEST_TEXT: usize = 4096;
/// Maximum number of names in one text.
pub const MOST_NAMES: usize = 1000;
/// Characters that, in addition to whitespace, separate the words of a command line or the choices of a pattern.
const SEPARATORS: &str = "\"'`;|&<>()=,{}\0";
/// Characters that, in addition to whitespace, end a word in a shell.
const OPERATORS: &str = ";|&<>()`\0";
/// Commands of a shell that change its folder.
const FOLDER_CHANGES: [&str; 4] = ["cd", "chdir", "pushd", "popd"];

/// Parts of argument names, such as `root_dir`, whose values may be base folders for relative paths in other arguments.
const BASES: [&str; 7] = ["path", "dir", "folder", "cwd", "root", "base", "workspace"];
/// Maximum number of base folders of one call. The policy holds a call with more.
pub const MOST_BASES: usize = 64;
/// Prefix of the lines that name a file in a patch for Codex, as in `*** Update File: src/a.rs`.
const PATCHED: &str = "*** ";
/// Maximum nesting of commands within commands, such as `sh -c "cd keys"`. Deeper ones count as unsure.
const MOST_NESTED: usize = 4;

/// Returns true if the value of an argument with this name may be a base folder for relative paths in other arguments.
pub fn is_base(argument: &str) -> bool {
    let name = argument.to_ascii_lowercase();
    BASES.iter().any(|base| name.contains(base))
}

/// Returns the names of the files in a patch, which may contain spaces.
pub(crate) fn patched_files(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(PATCHED));
    lines.filter_map(|line| Some(line.split_once(':')?.1.trim()))
}

/// Returns true if a text consists only of letters, digits, `_` and `-`. Argument names of tools do; most paths do not.
pub fn is_argument_name(name: &str) -> bool {
    name.chars()
        .all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
}

/// Returns everything in a text that can be a path, each once, the text itself first. `None` if the text is longer than
/// [`LONGEST_TEXT`] or has more than [`MOST_NAMES`] names.
pub fn names_in(text: &str) -> Option<Vec<String>> {
    if text.len() > LONGEST_TEXT {
        return None;
    }
    let written = text.split(|c: char| c.is_whitespace() || SEPARATORS.contains(c));
    let read = ShellWords::read(text).words;
    let is_path = |name: &str| !name.is_empty() && !name.contains('\0');
    let mut seen = HashSet::new();
    let all = std::iter::once(text).chain(patched_files(text)).chain(written);
    let all = all.map(str::to_owned).chain(read).filter(|name| is_path(name));
    let names: Vec<String> = all.filter(|name| seen.insert(name.clone())).collect();
    (names.len() <= MOST_NAMES).then_some(names)
}

/// A text as a POSIX shell reads it.
pub(crate) struct ShellWords {
    /// The words without quotes and backslashes; of `--name=value`, also the value.
    pub(crate) words: Vec<String>,
    /// False if a shell may interpret the text differently, or run in another folder: quotes that do not end, `$'…'`,
    /// variables, substitutions, choices in braces, a here-document with quotes, or a change of folder.
    pub(crate) is_sure: bool,
}

impl ShellWords {
    pub(crate) fn read(text: &str) -> ShellWords {
        ShellWords::read_nested(text, 0)
    }

    fn read_nested(text: &str, level: usize) -> ShellWords {
        let mut reader = Reader::default();
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '\\' => reader.escaped(rest.next()),
                '\'' => reader.single_quoted(&mut rest),
                '"' => reader.double_quoted(&mut rest),
                // `$'…'` has escapes of its own.
                '$' if rest.peek() == Some(&'\'') => reader.is_unsure = true,
                '$' => reader.dollar(rest.peek()),
                c if c.is_whitespace() || OPERATORS.contains(c) => {
                    reader.is_unsure |= c == '`';
                    reader.end_word();
                }
                c => reader.push(c),
            }
        }
        reader.end_word();
        // In a here-document, quotes and backslashes mean something else. Comments count as text: an apostrophe there
        // leaves a quote open.
        let is_here_document = text.contains("<<") && text.contains(['\'', '"', '\\']);
        // After a command that changes the folder, relative paths begin in another folder.
        let moves = reader
            .words
            .iter()
            .any(|word| FOLDER_CHANGES.contains(&word.as_str()));
        // `~+` stands for the shell's current folder, `~-` for its previous one.
        let has_folder = reader
            .words
            .iter()
            .any(|word| word.starts_with("~+") || word.starts_with("~-"));
        // A word with spaces may be a command for another shell: `sh -c "cd keys; cat x"`.
        let is_command = |word: &&String| word.contains(|c: char| c.is_whitespace() || OPERATORS.contains(c));
        let is_nested_unsure = reader
            .words
            .iter()
            .filter(is_command)
            .any(|word| level == MOST_NESTED || !ShellWords::read_nested(word, level + 1).is_sure);
        ShellWords {
            is_sure: !(reader.is_unsure || is_here_document || moves || has_folder || is_nested_unsure),
            words: reader.words,
        }
    }
}

/// State of reading a text as a shell does.
#[derive(Default)]
struct Reader {
    words: Vec<String>,
    word: String,
    /// Length of the word up to the end of its first `=` outside quotes; `None` if there is none.
    value_at: Option<usize>,
    /// True if the word has an opening brace outside quotes.
    has_brace: bool,
    is_unsure: bool,
}

type Rest<'t> = std::iter::Peekable<std::str::Chars<'t>>;

impl Reader {
    fn push(&mut self, c: char) {
        self.has_brace |= c == '{';
        // Choices (`{a,b}`) and ranges (`{a..c}`) make several words of one.
        self.is_unsure |= self.has_brace && (c == ',' || c == '.' && self.word.ends_with('.'));
        self.word.push(c);
        if c == '=' && self.value_at.is_none() {
            self.value_at = Some(self.word.len());
        }
    }

    /// Adds a `$` outside single quotes. Before most characters it starts a substitution, which makes the text unsure.
    fn dollar(&mut self, next: Option<&char>) {
        self.is_unsure |= next.is_some_and(|c| c.is_alphanumeric() || "_{([*@#?-$!\"".contains(*c));
        self.word.push('$');
    }

    /// Adds the character after a backslash. An escaped line end joins two lines.
    fn escaped(&mut self, c: Option<char>) {
        match c {
            Some('\n') => {}
            Some(c) => self.word.push(c),
            None => self.is_unsure = true,
        }
    }

    fn single_quoted(&mut self, rest: &mut Rest<'_>) {
        for c in rest {
            match c {
                '\'' => return,
                c => self.word.push(c),
            }
        }
        self.is_unsure = true;
    }

    fn double_quoted(&mut self, rest: &mut Rest<'_>) {
        while let Some(c) = rest.next() {
            let next = rest.peek().copied();
            match (c, next) {
                ('"', _) => return,
                // Within double quotes, a backslash escapes only these characters.
                ('\\', Some('$' | '`' | '"' | '\\' | '\n')) => self.escaped(rest.next()),
                ('$', Some('"')) => self.word.push(c),
                ('$', next) => self.dollar(next.as_ref()),
                ('`', _) => {
                    self.is_unsure = true;
                    self.word.push(c);
                }
                _ => self.word.push(c),
            }
        }
        self.is_unsure = true;
    }

    fn end_word(&mut self) {
        let value = self.value_at.take().and_then(|at| self.word.get(at..));
        let value = value.filter(|value| !value.is_empty()).map(str::to_owned);
        let word = std::mem::take(&mut self.word);
        self.has_brace = false;
        if !word.is_empty() {
            self.words.push(word);
        }
        // In `curl -F name=@file`, the text after `@` is the name of a file that curl reads.
        let behind_at = value.as_deref().and_then(|value| value.strip_prefix('@'));
        let behind_at = behind_at.map(str::to_owned);
        self.words.extend(value);
        self.words.extend(behind_at);
    }
}

/// Decodes one level of percent encoding. `None` if nothing in the text is percent-encoded.
pub fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escaped = match byte {
            b'%' => digit(bytes.get(at + 1)).zip(digit(bytes.get(at + 2))),
            _ => None,
        };
        decoded.push(match escaped {
            Some((high, low)) => (high * 16 + low) as u8,
            None => *byte,
        });
        at += if escaped.is_some() { 3 } else { 1 };
    }
    (decoded.len() < bytes.len()).then_some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let read = ShellWords::read(text);
        assert_eq!(read.words, expected, "{text}");
        assert!(read.is_sure, "{text}");
    }

    #[test]
    fn x81_words_are_read_as_a_shell_reads_them() {
        check("cat a b", &["cat", "a", "b"]);
        check(r#"cat "my keys/a" 'my notes'"#, &["cat", "my keys/a", "my notes"]);
        check(r"cat my\ keys/a", &["cat", "my keys/a"]);
        check(r#"cat .e"n"v a''b \'"#, &["cat", ".env", "ab", "'"]);
        check(r#"cat "a\"b" "a\b" 'a\b'"#, &["cat", "a\"b", r"a\b", r"a\b"]);
        check("cat a\\\nb", &["cat", "ab"]);
        check("a;b|c&&d>e<f (g)", &["a", "b", "c", "d", "e", "f", "g"]);
        check(
            r#"x --key="my key" -F f=@"my file""#,
            &[
                "x",
                "--key=my key",
                "my key",
                "-F",
                "f=@my file",
                "@my file",
                "my file",
            ],
        );
        check(
            r"echo \$HOME '$HOME' 5$ $",
            &["echo", "$HOME", "$HOME", "5$", "$"],
        );
        check(r#"grep "a$" 'cd'x"#, &["grep", "a$", "cdx"]);
        check(
            r"find . -exec cat {} \;",
            &["find", ".", "-exec", "cat", "{}", ";"],
        );
        check("echo a,b '{a,b}' ..", &["echo", "a,b", "{a,b}", ".."]);
        check("cat 'a'\n", &["cat", "a"]);
        check("grep 'a$' b", &["grep", "a$", "b"]);
    }

    #[test]
    fn x81_a_text_that_a_shell_may_read_otherwise_is_unsure() {
        for text in [
            "cat 'a",
            "cat \"a",
            "cat a\\",
            r"cat $'\x2eenv'",
            r#"cat "$(cat "my file")""#,
            r#"cat "`cat x`""#,
            r#"cat "${x:-"a b"}""#,
            r"cat `echo \\.env`",
            "cat <<E\nit's\nE",
            "ls # don't",
            "cat .e${X}nv",
            "cat $X",
            "cat \"$HOME/my keys\"",
            "cat $(x)",
            "cat `x`",
            "cat n{o,x}tes",
            "cat n{a..c}",
            "cd keys && cat x",
            "(cd keys; cat x)",
            "'c'd keys",
            "pushd keys",
            r#"sh -c "cd keys; cat x""#,
            r#"sh -c '"c""d" keys'"#,
            "cat ~+/x",
        ] {
            assert!(!ShellWords::read(text).is_sure, "{text}");
        }
    }

    #[test]
    fn x81_names_are_the_text_and_its_words_up_to_a_limit() {
        let names = names_in(r#"cat "my keys/a""#).unwrap();
        for name in [r#"cat "my keys/a""#, "my", "keys/a", "my keys/a"] {
            assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
        }
        assert_eq!(names_in("a").unwrap(), ["a"]);
        assert!(names_in("").unwrap().is_empty());
        assert!(names_in(&"a".repeat(LONGEST_TEXT + 1)).is_none());
        let many: Vec<String> = (0..MOST_NAMES).map(|number| number.to_string()).collect();
        assert!(names_in(&many.join(" ")).is_none());
    }
}
